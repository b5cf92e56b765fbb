#include <gtest/gtest.h>

#include "loadstone/plan/plan.h"
#include "loadstone/plan/plan_fixtures.h"

namespace loadstone {
namespace {

std::string text_of(const char* name, std::int32_t process) {
  PlanOptions options;
  options.process = process;
  options.cost = testing::exact_cost();
  return to_string(testing::golden(name).plan(options));
}

// covers: sharding G1, R4
TEST(PlanText, G1) {
  EXPECT_EQ(text_of("G1", 0), R"(plan of process 0: strategy per_process
arrays
  'w' float32 (64, 128), mesh x=8, P(None, 'x')
      whole files not taken: dimension 1 is split
shards
  device  place  replica  box         bytes
  0       cpu:0  r0       [:, 0:16]   4,096
  1       cpu:1  r0       [:, 16:32]  4,096
reads
  box        bytes  to devices
  [:, 0:32]  8,192  0 1
totals
  needed                 8.19 kB   8,192 bytes
  placed                 8.19 kB   8,192 bytes
  read                   8.19 kB   8,192 bytes
  over-read                  0 B       0 bytes
  read twice or more         0 B       0 bytes
  copied in the process      0 B       0 bytes
  staging                8.19 kB   8,192 bytes
  peak host memory       16.4 kB  16,384 bytes
  pieces                       1
  requests                    64
  predicted               8.2 us
)");
}

// covers: sharding G2, R4
TEST(PlanText, G2) {
  EXPECT_EQ(text_of("G2", 0), R"(plan of process 0: strategy per_process
arrays
  'w' float32 (64, 128), mesh x=8, P(None, 'x')
      whole files not taken: dimension 1 is split
shards
  device  place  replica  box           bytes
  0       cpu:4  r0       [:, 64:80]    4,096
  1       cpu:7  r0       [:, 112:128]  4,096
reads
  box           bytes  to devices
  [:, 64:80]    4,096  0
  [:, 112:128]  4,096  1
totals
  needed                 8.19 kB   8,192 bytes
  placed                 8.19 kB   8,192 bytes
  read                   8.19 kB   8,192 bytes
  over-read                  0 B       0 bytes
  read twice or more         0 B       0 bytes
  copied in the process      0 B       0 bytes
  staging                4.10 kB   4,096 bytes
  peak host memory       12.3 kB  12,288 bytes
  pieces                       2
  requests                   128
  predicted               8.2 us
)");
}

// covers: sharding G3
TEST(PlanText, G3) {
  EXPECT_EQ(text_of("G3", 3), R"(plan of process 3: strategy per_process
arrays
  'w' float32 (64, 128), mesh x=2,y=4, P('x', 'y')
      whole files not taken: dimension 1 is split
shards
  device  place  replica  box              bytes
  6       cpu:6  r0       [32:64, 64:96]   4,096
  7       cpu:7  r0       [32:64, 96:128]  4,096
reads
  box              bytes  to devices
  [32:64, 64:128]  8,192  6 7
totals
  needed                 8.19 kB   8,192 bytes
  placed                 8.19 kB   8,192 bytes
  read                   8.19 kB   8,192 bytes
  over-read                  0 B       0 bytes
  read twice or more         0 B       0 bytes
  copied in the process      0 B       0 bytes
  staging                8.19 kB   8,192 bytes
  peak host memory       16.4 kB  16,384 bytes
  pieces                       1
  requests                    32
  predicted               8.2 us
)");
}

// covers: sharding G13, R9, R22
TEST(PlanText, G13) {
  EXPECT_EQ(text_of("G13", 0), R"(plan of process 0: strategy per_process
arrays
  'w' float32 (64, 3), mesh replicas=4,model=2, P('replicas')
      whole files not taken: 1 file for 4 tiles
shards
  device  place  replica  box         bytes
  0       cpu:0  r0       [0:16, :]     192
  1       cpu:4  r0       [32:48, :]    192
reads
  box         bytes  to devices
  [0:16, :]     192  0
  [32:48, :]    192  1
totals
  needed                  384 B  384 bytes
  placed                  384 B  384 bytes
  read                    384 B  384 bytes
  over-read                 0 B    0 bytes
  read twice or more        0 B    0 bytes
  copied in the process     0 B    0 bytes
  staging                 192 B  192 bytes
  peak host memory        576 B  576 bytes
  pieces                      2
  requests                    2
  predicted              0.4 us
notes
  replication factor 2: each box is on 2 devices; processes that load the same: {0,2}, {1,3}
)");
}

}  // namespace
}  // namespace loadstone
