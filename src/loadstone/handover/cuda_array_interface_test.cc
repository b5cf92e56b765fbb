#include "loadstone/handover/cuda_array_interface.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "loadstone/base/error.h"

namespace loadstone::cai {
namespace {

constexpr Place kDevice{PlaceKind::cuda, 0};

Interface described(const Shape& shape, const std::string& typestr, std::uintptr_t address = 0x1000) {
  Interface out;
  out.address = address;
  out.shape = shape;
  out.typestr = typestr;
  return out;
}

/// The error of an import, as "kind: message".
std::string refusal(const Interface& interface) {
  try {
    import_view(interface, kDevice);
  } catch (const Error& error) {
    return std::string(kind_name(error.kind())) + ": " + error.message();
  }
  return "accepted";
}

// covers: memory_view B11
TEST(CudaArrayInterface, TypeStringsGoThereAndBack) {
  for (const char* typestr :
       {"|b1", "|i1", "<i2", "<i4",  "<i8",    "|u1",     "<u2",     "<u4",     "<u8",    "<f2",
        "<f4", "<f8", "<c8", "<c16", "<M8[s]", "<M8[ms]", "<M8[us]", "<M8[ns]", "<m8[s]", "<m8[ns]"}) {
    EXPECT_EQ(loadstone::cai::typestr(element_type(typestr)), typestr);
  }
  EXPECT_EQ(element_type("=f4"), dtypes::kFloat32);
  EXPECT_EQ(element_type("|f4"), dtypes::kFloat32);
  EXPECT_EQ(element_type("<V2", dtypes::kBFloat16), dtypes::kBFloat16);
  EXPECT_EQ(element_type("<f1", dtypes::kFloat8E5M2), dtypes::kFloat8E5M2);
  EXPECT_EQ(loadstone::cai::typestr(dtypes::kBFloat16), "<V2");
  EXPECT_EQ(loadstone::cai::typestr(dtypes::kFloat8E4M3FN), "");
}

TEST(CudaArrayInterface, RefusalsNameTheFieldAndTheValue) {
  EXPECT_EQ(refusal(described({3}, ">i4")), "usage: Big-endian data is not supported");
  EXPECT_EQ(refusal(described({3}, "<M8[D]")), "usage: Unsupported dtype: M8[D]");
  EXPECT_EQ(refusal(described({3}, "<f16")), "usage: Unsupported dtype: f16");
  EXPECT_TRUE(refusal(described({3}, "|V2")).starts_with("usage: Unsupported dtype: V2"))
      << refusal(described({3}, "|V2"));
  EXPECT_EQ(refusal(described({3}, "")), "usage: Unsupported dtype: ");
  EXPECT_NE(refusal(described({3, -1}, "<f4")).find("usage: shape (3, -1)"), std::string::npos);
  EXPECT_NE(refusal(described({3}, "<f4", 0)).find("usage: pointer 0"), std::string::npos);
  EXPECT_NE(refusal(described(Dims::filled(65, 1), "<f4")).find("usage: shape: 65"), std::string::npos);
  Interface interface = described({3}, "<f4");
  interface.version = 4;
  EXPECT_NE(refusal(interface).find("version 4"), std::string::npos);
  interface.version = 3;
  for (const std::int64_t stream : {0, -1, -7}) {
    interface.stream = stream;
    EXPECT_NE(refusal(interface).find("usage: stream " + std::to_string(stream)), std::string::npos);
  }
  interface.stream = 5;
  interface.strides = Dims{6};
  EXPECT_NE(refusal(interface).find("usage: strides (6,)"), std::string::npos);
}

TEST(CudaArrayInterface, SizesBeyond63BitsAreDataErrorsBeforeMemoryIsTouched) {
  EXPECT_TRUE(refusal(described({1LL << 40, 1LL << 40}, "|u1")).starts_with("data: "));
  EXPECT_TRUE(refusal(described({1LL << 61}, "<f8")).starts_with("data: "));
  Interface far = described({3}, "<f8");
  far.strides = Dims{INT64_MAX / 8 * 8};
  EXPECT_TRUE(refusal(far).starts_with("data: ")) << refusal(far);
  Interface unused = described({2, 1}, "<f4");
  unused.strides = Dims{16, INT64_MAX / 4 * 4};
  EXPECT_EQ(export_view(import_view(unused, kDevice)).strides, (Dims{16, INT64_MAX / 4 * 4})) << "a stride that fits";
  // In elements it fits, in bytes it does not: the extent of 1 is never stepped along, so the stride means nothing.
  const View huge = foreign_view(0x1000, {2, 1}, Dims{4, INT64_MAX / 2}, dtypes::kFloat32, kDevice, false, Order{}, {});
  EXPECT_EQ(export_view(huge).strides, (Dims{16, 0}));
  Interface wrap = described({1LL << 40}, "|u1", UINTPTR_MAX - 5);
  EXPECT_NE(refusal(wrap).find("address space"), std::string::npos);
}

// covers: memory_view B6
TEST(CudaArrayInterface, OrderIsReadFromVersion3OnAndAfterReplacesNoneAndZero) {
  Interface interface = described({3}, "<f4");
  interface.stream = 7;
  EXPECT_EQ(import_view(interface, kDevice).order(), Order{}) << "older versions carry no stream";
  interface.version = 3;
  EXPECT_EQ(import_view(interface, kDevice).order(), (Order{Order::Kind::stream, 7}));
  const Order event{Order::Kind::event, 99};
  EXPECT_EQ(import_view(interface, kDevice, {}, event).order(), (Order{Order::Kind::stream, 7}));
  interface.stream = 0;
  EXPECT_EQ(import_view(interface, kDevice, {}, event).order(), event);
  interface.stream.reset();
  EXPECT_EQ(import_view(interface, kDevice, {}, event).order(), event);
  EXPECT_EQ(import_view(interface, kDevice).order(), Order{});
}

// covers: memory_view B5, B8, B12
TEST(CudaArrayInterface, ExportIsNormalised) {
  Interface strided = described({2, 3}, "<f4", 0x1010);
  strided.strides = Dims{-16, 4};
  strided.readonly = true;
  const View negative = import_view(strided, kDevice);
  EXPECT_EQ(negative.data(), reinterpret_cast<std::byte*>(0x1010)) << "element 0, not the lowest address";
  EXPECT_EQ(negative.memory()->base(), reinterpret_cast<std::byte*>(0x1000));
  EXPECT_THROW(export_view(negative), Error);
  strided.strides = Dims{16, 4};
  const Interface out = export_view(import_view(strided, kDevice));
  EXPECT_EQ(out.version, 3);
  EXPECT_TRUE(out.readonly);
  EXPECT_EQ(out.strides, (Dims{16, 4}));
  EXPECT_FALSE(out.stream);
  strided.strides = Dims{12, 4};
  EXPECT_FALSE(export_view(import_view(strided, kDevice)).strides) << "C order needs none";
  const View empty = import_view(described({0, 7}, "<f4", 0x1000), kDevice);
  EXPECT_EQ(empty.data(), nullptr);
  EXPECT_EQ(export_view(empty).address, 0u);
}

// covers: memory_view B5
TEST(CudaArrayInterface, BroadcastViewsAreReadOnly) {
  Interface broadcast = described({4, 3}, "<f4");
  broadcast.strides = Dims{0, 4};
  const View view = import_view(broadcast, kDevice);
  EXPECT_TRUE(view.readonly());
  EXPECT_EQ(view.memory()->bytes(), 12);
}

TEST(CudaArrayInterface, ReleaseRunsOnceWithTheLastUser) {
  int released = 0;
  {
    const View view =
        import_view(described({3}, "<f4"), kDevice, {}, {}, [&](std::byte*, std::int64_t) { ++released; });
    const View copy = view;
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

}  // namespace
}  // namespace loadstone::cai
