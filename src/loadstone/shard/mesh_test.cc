#include "loadstone/shard/mesh.h"

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/shard/test_helpers.h"
#include "tests/fakes/cuda_driver.h"

namespace loadstone {
namespace {

using test::expect_usage_error;
using test::mesh_of;
using Ids = std::vector<std::int64_t>;

std::vector<Device> cpus(const Ids& ids) {
  std::vector<Device> devices;
  for (const std::int64_t id : ids) devices.push_back({id, 0, {}, -1});
  return devices;
}

TEST(Mesh, OrderIsRowMajorOverItsArray) {
  const Mesh mesh = mesh_of("x=2,y=3", 2, {6, 2, 3, 4, 0, 7});
  EXPECT_EQ(mesh.ndim(), 2);
  EXPECT_EQ(mesh.num_devices(), 6);
  EXPECT_EQ(mesh.coordinates(0), (Dims{0, 0}));
  EXPECT_EQ(mesh.coordinates(4), (Dims{1, 1}));
  EXPECT_EQ(mesh.coordinates(5), (Dims{1, 2}));
  EXPECT_EQ(mesh.position_of_id(4), 3);
  EXPECT_EQ(mesh.position_of_id(1), -1);
  EXPECT_EQ(mesh.positions_of(1), (Ids{1, 2}));
  EXPECT_EQ(mesh.positions_of(3), (Ids{0, 5}));
  EXPECT_EQ(mesh.axis("y"), 1);
  EXPECT_EQ(mesh.axis("z"), -1);
  EXPECT_EQ(to_string(mesh), "x=2,y=3");
  expect_usage_error([&] { mesh.coordinates(6); }, {"position 6", "6 devices"});
  expect_usage_error([&] { mesh.coordinates(-1); }, {"position -1"});
}

// covers: sharding R3, sharding R29
TEST(Mesh, ProcessCountIsTheLargestProcessPlusOne) {
  std::vector<Device> devices = cpus({0, 1});
  devices[0].process = 5;
  devices[1].process = 2;
  const Mesh mesh({"x"}, {2}, devices);
  EXPECT_EQ(mesh.process_count(), 6);
  EXPECT_EQ(mesh.positions_of(2), (Ids{1}));
  EXPECT_TRUE(mesh.positions_of(0).empty());
}

TEST(Mesh, IdsMayBeSparseAndUnsorted) {
  // CPU ids of process p start at 131072·p; topology-aware orders are not sorted.
  const Mesh sparse = mesh_of("x=4", 131072, {0, 1, 131072, 131073});
  EXPECT_EQ(sparse.positions_of(1), (Ids{2, 3}));
  const Mesh topology = mesh_of("x=8", 4, {0, 1, 2, 3, 6, 7, 4, 5});
  EXPECT_EQ(topology.position_of_id(6), 4);
  EXPECT_EQ(topology.process_count(), 2);
}

TEST(Mesh, EqualMeansSameDevicesInOrderShapeAndNames) {
  EXPECT_EQ(mesh_of("x=2,y=2"), mesh_of("x=2,y=2"));
  EXPECT_FALSE(mesh_of("x=2,y=2") == mesh_of("x=4"));
  EXPECT_FALSE(mesh_of("x=2,y=2") == mesh_of("x=2,z=2"));
  EXPECT_FALSE(mesh_of("x=4") == mesh_of("x=4", 2, {0, 2, 1, 3}));
  EXPECT_FALSE(mesh_of("x=4") == mesh_of("x=4", 4));
}

TEST(Mesh, OfCpusNumbersDevicesAndPlaces) {
  const Mesh mesh = Mesh::of_cpus({"x", "y"}, {2, 2});
  EXPECT_EQ(mesh.devices()[3], (Device{3, 0, {PlaceKind::host, 3}, -1}));
  EXPECT_EQ(mesh.process_count(), 1);
}

TEST(Mesh, RefusesCountsThatDisagree) {
  expect_usage_error([] { Mesh({"x"}, {2, 2}, cpus({0, 1, 2, 3})); }, {"2 dimensions (2, 2)", "1 axis names"});
  expect_usage_error([] { Mesh({"x", "y"}, {2, 4}, cpus({0, 1, 2, 3})); }, {"x=2,y=4 needs 8 devices", "4 are given"});
  expect_usage_error([] { Mesh({"x"}, {2}, {}); }, {"needs 2 devices", "0 are given"});
  expect_usage_error([] { Mesh({"x"}, {0}, {}); }, {"'x' has size 0", "size >= 1"});
  expect_usage_error([] { Mesh({"x"}, {-4}, {}); }, {"'x' has size -4"});
}

TEST(Mesh, RefusesRepeatedAndMissingNames) {
  expect_usage_error([] { Mesh({"x", "x"}, {2, 2}, cpus({0, 1, 2, 3})); }, {"'x' occurs twice", "positions 0 and 1"});
  expect_usage_error([] { Mesh({"x", ""}, {2, 2}, cpus({0, 1, 2, 3})); }, {"position 1", "no name"});
}

TEST(Mesh, RefusesRepeatedDevicesAndNamesTheFirstFive) {
  expect_usage_error(
      [] {
        Mesh({"x"}, {4}, cpus({0, 7, 2, 7}));
      },
      {"occurs twice", "device 7 (cpu:0, process 0) at positions 1 and 3"});
  expect_usage_error([] { Mesh({"x"}, {8}, cpus({1, 1, 1, 1, 1, 1, 1, 1})); }, {"positions 4 and 5 and 2 more"});
}

TEST(Mesh, RefusesProcessesThatCannotBe) {
  std::vector<Device> devices = cpus({3});
  devices[0].process = -1;
  expect_usage_error([&] { Mesh({"x"}, {1}, devices); }, {"device 3", "process -1"});
  expect_usage_error([] { mesh_of("x=1", 2, {-1}); }, {"device id -1"});
  expect_usage_error([] { mesh_of("x=1", 1, {std::int64_t{1} << 40}); }, {"device id 1099511627776"});
  expect_usage_error([] { mesh_of("x=1", 0, {0}); }, {"at least 1 device a process, found 0"});
}

TEST(Mesh, RefusesAbsurdSizesWithoutMakingDevices) {
  expect_usage_error([] { Mesh::of_cpus({"x", "y"}, {1024, 1025}); }, {"x=1024,y=1025", "1049600", "1048576"});
  expect_usage_error([] { Mesh::of_cpus({"x", "y"}, {std::int64_t{1} << 40, std::int64_t{1} << 40}); }, {"2^63-1"});
  expect_usage_error([] { Mesh({"x"}, {std::int64_t{1} << 60}, {}); }, {"1152921504606846976 devices", "0 are given"});
  EXPECT_EQ(Mesh::of_cpus({"x", "y"}, {1024, 1024}).num_devices(), 1048576);
}

TEST(ParseMesh, ReadsNamesAndSizes) {
  const auto [names, sizes] = parse_mesh("x=2,y=4");
  EXPECT_EQ(names, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(sizes, (Dims{2, 4}));
  EXPECT_EQ(parse_mesh(" data = 16 , model=1").first, (std::vector<std::string>{"data", "model"}));
}

TEST(ParseMesh, ErrorsNameTheEntry) {
  const auto refuses = [](const char* text, const std::vector<std::string>& words) {
    SCOPED_TRACE(text);
    expect_usage_error([&] { parse_mesh(text); }, words);
  };
  refuses("", {"entry ''", "x=2,y=4"});
  refuses("x=2,y", {"entry 'y'", "no '='"});
  refuses("x=2,", {"entry ''"});
  refuses("=2", {"entry '=2'", "no axis name"});
  refuses("x=0", {"entry 'x=0'", "size >= 1"});
  refuses("x=-2", {"entry 'x=-2'"});
  refuses("x=2.5", {"entry 'x=2.5'"});
  refuses("x=two", {"entry 'x=two'"});
  refuses("x=99999999999999999999", {"entry 'x=99999999999999999999'"});
  refuses("x=2,y=2,x=2", {"entry 'x=2'", "twice"});
  refuses("x=4294967296,y=4294967296", {"entry 'y=4294967296'", "2^63-1"});
  refuses("-=2", {"entry '-=2'", "a spec cannot use"});
  refuses("None=2", {"entry 'None=2'"});
  refuses("a+b=2", {"entry 'a+b=2'"});
  refuses("\x1b[31m=2,", {"\\x1b"});
}

TEST(ParseDevices, ReadsTheThreeForms) {
  const std::vector<Device> cpu = parse_devices("3,1, 0");
  EXPECT_EQ(cpu,
            (std::vector<Device>{
                {3, 0, {PlaceKind::host, 3}, -1}, {1, 0, {PlaceKind::host, 1}, -1}, {0, 0, {PlaceKind::host, 0}, -1}}));
  EXPECT_EQ(parse_devices("cpu:3,1"), parse_devices("3,cpu:1"));
  EXPECT_EQ(parse_devices("cuda:1,cuda:0"),
            (std::vector<Device>{{1, 0, {PlaceKind::cuda, 1}, -1}, {0, 0, {PlaceKind::cuda, 0}, -1}}));
}

TEST(ParseDevices, MixedKindsAndPartsCountUp) {
  EXPECT_EQ(parse_devices("cuda:0.3,cuda:0.1"),
            (std::vector<Device>{{0, 0, {PlaceKind::cuda, 0}, 3}, {1, 0, {PlaceKind::cuda, 0}, 1}}));
  EXPECT_EQ(parse_devices("cuda:5,cpu:5"),
            (std::vector<Device>{{0, 0, {PlaceKind::cuda, 5}, -1}, {1, 0, {PlaceKind::host, 5}, -1}}));
}

TEST(ParseDevices, NamesReadAsWritten) {
  EXPECT_EQ(place_name(parse_devices("cuda:0.3")[0]), "cuda:0.3");
  EXPECT_EQ(place_name(parse_devices("7")[0]), "cpu:7");
  EXPECT_EQ(to_string(parse_devices("cuda:2")[0]), "device 2 (cuda:2, process 0)");
}

TEST(ParseDevices, ErrorsNameTheEntry) {
  const auto refuses = [](const char* text, const std::vector<std::string>& words) {
    SCOPED_TRACE(text);
    expect_usage_error([&] { parse_devices(text); }, words);
  };
  refuses("", {"device ''", "empty"});
  refuses("0,,1", {"device ''"});
  refuses("0,x", {"device 'x'"});
  refuses("-1", {"device '-1'"});
  refuses("+1", {"device '+1'"});
  refuses("2147483648", {"device '2147483648'"});
  refuses("cpu:", {"device 'cpu:'", "no device number"});
  refuses("cpu:0.1", {"device 'cpu:0.1'"});
  refuses("cuda:0.", {"device 'cuda:0.'", "after the point"});
  refuses("cuda:0.x", {"device 'cuda:0.x'"});
  refuses("cud:0", {"device 'cud:0'", "known: cpu, cuda", "nearest: cuda"});
  refuses("tpu:0", {"device 'tpu:0'", "known: cpu, cuda"});
  refuses("0,1,0", {"twice", "'cpu:0'"});
  refuses("0,cpu:0", {"twice", "'cpu:0'"});
  refuses("cuda:0.1,cuda:0.1", {"twice", "'cuda:0.1'"});
}

class ParseUuids : public testing::Test {
 protected:
  void SetUp() override {
    fake_cuda::reset({.devices = 2});
    cuda::use_driver_for_tests(fake_cuda::table());
  }
  void TearDown() override { cuda::use_driver_for_tests(nullptr); }

  static void refuses(const std::string& text, ErrorKind kind, const std::string& words) {
    SCOPED_TRACE(text);
    try {
      parse_devices(text);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      EXPECT_NE(error.message().find(cat("device '", text, "'")), std::string::npos) << error.message();
      EXPECT_NE(error.message().find(words), std::string::npos) << error.message();
    }
  }
};

// The fake's GPUs differ in the last byte of their UUIDs.
TEST_F(ParseUuids, FindsTheGpuWhateverTheSpelling) {
  const Device second{1, 0, {PlaceKind::cuda, 1}, -1};
  for (const char* text :
       {"cuda:GPU-10111213-1415-1617-1819-1a1b1c1d1e01", "cuda:GPU-10111213-1415-1617-1819-1A1B1C1D1E01",
        "cuda:MIG-10111213-1415-1617-1819-1a1b1c1d1e01"}) {
    EXPECT_EQ(parse_devices(text), std::vector<Device>{second}) << text;
  }
  const std::vector<Device> parts = parse_devices("cuda:GPU-10111213-1415-1617-1819-1a1b1c1d1e01.3");
  EXPECT_EQ(place_name(parts[0]), "cuda:1.3");
}

TEST_F(ParseUuids, TheFirstDigitsSufficeWhereTheyAreOneGpus) {
  refuses("cuda:GPU-1011", ErrorKind::system, "may be any of several");
  fake_cuda::reset({.devices = 1});
  cuda::use_driver_for_tests(fake_cuda::table());
  EXPECT_EQ(place_name(parse_devices("cuda:GPU-1011")[0]), "cuda:0");
}

TEST_F(ParseUuids, ErrorsNameWhatIsThere) {
  refuses("cuda:GPU-9b0e1c3c", ErrorKind::system, "cuda:1 is GPU-10111213-1415-1617-1819-1a1b1c1d1e01");
  refuses("cuda:GPU-10111213-1415-1617-1819-1a1b1c1d1e0100", ErrorKind::system, "is not on this machine");
  refuses("cuda:GPU-", ErrorKind::usage, "has nothing after GPU-");
  test::expect_usage_error([] { parse_devices("cuda:0,cuda:GPU-10111213-1415-1617-1819-1a1b1c1d1e00"); },
                           {"twice", "'cuda:0'"});
}

}  // namespace
}  // namespace loadstone
