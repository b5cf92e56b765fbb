#include "loadstone/base/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <stdexcept>
#include <string>

#include "loadstone/base/cancel.h"

namespace loadstone {
namespace {

TEST(Error, CarriesKindMessageFactsAndPlace) {
  const Error error = data_error("'f': bad", {"f", "4 bytes", "3 bytes", 0});
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_STREQ(error.what(), "'f': bad");
  EXPECT_EQ(error.facts().expected, "4 bytes");
  EXPECT_NE(std::string(error.where().file_name()).find("error_test.cc"), std::string::npos);
  EXPECT_EQ(usage_error("u").kind(), ErrorKind::usage);
  EXPECT_EQ(internal_error("i").kind(), ErrorKind::internal);
  EXPECT_EQ(kind_name(ErrorKind::system), "system");
}

TEST(Error, APrefixKeepsEverythingElse) {
  const Error error = data_error("bad", {"f", "e", "g", 5}).with_prefix("'f'");
  EXPECT_EQ(error.message(), "'f': bad");
  EXPECT_EQ(error.facts().os_error, 5);
  EXPECT_EQ(error.kind(), ErrorKind::data);
}

// covers: loading E6
TEST(Error, AFailedCallNamesPathActionAndReason) {
  const Error error = os_error(EACCES, "dir/a\x1b", "cannot open");
  EXPECT_EQ(error.kind(), ErrorKind::system);
  EXPECT_EQ(error.message(), "'dir/a\\x1b': cannot open: Permission denied");
  EXPECT_EQ(error.facts().os_error, EACCES);
  EXPECT_EQ(error.facts().file, "dir/a\x1b");
}

TEST(CancelToken, PollsOnlyWhenAskedAndRemembers) {
  int polls = 0;
  CancelToken token([&] { return ++polls == 2; });
  EXPECT_FALSE(token.poll());
  EXPECT_FALSE(token.requested());
  EXPECT_NO_THROW(throw_if_requested(&token));
  EXPECT_TRUE(token.poll());
  EXPECT_TRUE(token.poll());
  EXPECT_EQ(polls, 2) << "not asked again once it was requested";
  EXPECT_THROW(throw_if_requested(&token), Interrupted);
  EXPECT_NO_THROW(throw_if_requested(nullptr));
}

}  // namespace
}  // namespace loadstone
