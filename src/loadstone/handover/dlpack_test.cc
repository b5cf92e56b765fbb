#include "loadstone/handover/dlpack.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "loadstone/base/error.h"

namespace loadstone::dlpack {
namespace {

View counted(const Shape& shape, DType dtype, bool readonly, int* freed, Place place = {PlaceKind::host, 3}) {
  const Layout layout(shape);
  const std::int64_t bytes = dtype.nbytes(layout.num_elems());
  auto* base = new std::byte[static_cast<std::size_t>(bytes) + 1];
  auto memory = std::make_shared<Memory>(base, bytes, place, readonly, [freed](std::byte* p, std::int64_t) {
    delete[] p;
    ++*freed;
  });
  return View(std::move(memory), 0, layout, dtype);
}

struct Managers {
  std::unique_ptr<ManagedTensorVersioned, void (*)(ManagedTensorVersioned*)> versioned;
  explicit Managers(ManagedTensorVersioned* tensor) : versioned(tensor, tensor->deleter) {}
};

// covers: memory_view B3, B10
TEST(Dlpack, VersionedExportDescribesTheViewAndSharesItsBytes) {
  int freed = 0;
  View view = counted({2, 3}, dtypes::kFloat32, false, &freed);
  ManagedTensorVersioned* out = to_versioned(view);
  EXPECT_EQ(out->version.major, 1u);
  EXPECT_EQ(out->version.minor, 3u);
  EXPECT_EQ(out->flags, 0u);
  EXPECT_EQ(out->tensor.data, view.data());
  EXPECT_EQ(out->tensor.byte_offset, 0u);
  EXPECT_EQ(out->tensor.device, (Place{PlaceKind::host, 0})) << "cpu:3 is a label of ours";
  EXPECT_EQ(out->tensor.dtype, dtypes::kFloat32);
  ASSERT_EQ(out->tensor.ndim, 2);
  EXPECT_EQ(out->tensor.shape[0], 2);
  EXPECT_EQ(out->tensor.shape[1], 3);
  ASSERT_NE(out->tensor.strides, nullptr);
  EXPECT_EQ(out->tensor.strides[0], 3);
  EXPECT_EQ(out->tensor.strides[1], 1);
  view = View();
  EXPECT_EQ(freed, 0) << "the export keeps the memory";
  out->deleter(out);
  EXPECT_EQ(freed, 1);
}

// covers: memory_view B3
TEST(Dlpack, MinorVersionIsTheSmallerOfOursAndTheConsumers) {
  int freed = 0;
  const View view = counted({1}, dtypes::kInt8, false, &freed);
  for (const auto& [asked, given] : {std::pair<unsigned, unsigned>{0, 0}, {2, 2}, {3, 3}, {9, 3}}) {
    const Managers out(to_versioned(view, asked));
    EXPECT_EQ(out.versioned->version.minor, given) << asked;
  }
}

// covers: memory_view B5
TEST(Dlpack, ReadOnlyIsAFlagAndNeverGetsLostInTheLegacyForm) {
  int freed = 0;
  const View view = counted({4}, dtypes::kInt32, true, &freed);
  {
    const Managers out(to_versioned(view));
    EXPECT_EQ(out.versioned->flags, kReadOnly);
    const Managers copied(to_versioned(view, 3, true));
    EXPECT_EQ(copied.versioned->flags, kReadOnly | kIsCopied);
  }
  try {
    to_legacy(view);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(error.message().find("read-only"), std::string::npos);
  }
}

TEST(Dlpack, LegacyExportFreesThroughItsDeleter) {
  int freed = 0;
  ManagedTensor* out = to_legacy(counted({5}, dtypes::kBFloat16, false, &freed));
  EXPECT_EQ(out->tensor.dtype, dtypes::kBFloat16);
  EXPECT_EQ(freed, 0);
  out->deleter(out);
  EXPECT_EQ(freed, 1);
}

TEST(Dlpack, EmptyViewsSayNullAndScalarsHaveNoStrides) {
  int freed = 0;
  const Managers empty(to_versioned(counted({0, 7}, dtypes::kInt8, false, &freed)));
  EXPECT_EQ(empty.versioned->tensor.data, nullptr);
  EXPECT_EQ(empty.versioned->tensor.ndim, 2);
  const Managers scalar(to_versioned(counted({}, dtypes::kInt8, false, &freed)));
  EXPECT_NE(scalar.versioned->tensor.data, nullptr);
  EXPECT_EQ(scalar.versioned->tensor.ndim, 0);
  EXPECT_EQ(scalar.versioned->tensor.strides, nullptr);
}

TEST(Dlpack, StridedViewsKeepTheirStridesAndElementZero) {
  int freed = 0;
  const View whole = counted({4, 6}, dtypes::kInt16, false, &freed);
  const View part = whole.subview(Box{{1, 2}, {3, 5}});
  const Managers out(to_versioned(part));
  EXPECT_EQ(out.versioned->tensor.data, whole.data() + (6 + 2) * 2);
  EXPECT_EQ(out.versioned->tensor.strides[0], 6);
}

TEST(Dlpack, PinnedAndManagedMemorySayOrdinalZeroAndDevicesKeepTheirs) {
  EXPECT_EQ(export_place({PlaceKind::pinned, 2}), (Place{PlaceKind::pinned, 0}));
  EXPECT_EQ(export_place({PlaceKind::managed, 2}), (Place{PlaceKind::managed, 0}));
  EXPECT_EQ(export_place({PlaceKind::cuda, 2}), (Place{PlaceKind::cuda, 2}));
}

/// A producer's tensor that counts its deleter's calls.
struct Producer {
  std::int64_t shape[2] = {2, 3};
  std::int64_t strides[2] = {3, 1};
  float values[8] = {};
  int deleted = 0;
  ManagedTensorVersioned managed;

  Producer() {
    managed.tensor = {values, Place{}, 2, dtypes::kFloat32, shape, strides, 0};
    managed.manager_ctx = this;
    managed.deleter = [](ManagedTensorVersioned* self) { ++static_cast<Producer*>(self->manager_ctx)->deleted; };
  }
  std::string refusal() {
    try {
      from_versioned(&managed);
    } catch (const Error& error) {
      return std::string(kind_name(error.kind())) + ": " + error.message();
    }
    return "accepted";
  }
};

// covers: memory_view B2
TEST(Dlpack, ImportSharesTheBytesAndDeletesOnce) {
  Producer producer;
  producer.managed.tensor.byte_offset = 8;
  producer.managed.flags = kReadOnly;
  {
    View view = from_versioned(&producer.managed, Order{Order::Kind::stream, 7});
    EXPECT_EQ(view.data(), reinterpret_cast<std::byte*>(producer.values + 2));
    EXPECT_EQ(view.shape(), (Shape{2, 3}));
    EXPECT_TRUE(view.readonly());
    EXPECT_EQ(view.order(), (Order{Order::Kind::stream, 7}));
    const View part = view.subview(Box{{1, 0}, {2, 3}});
    view = View();
    EXPECT_EQ(producer.deleted, 0) << "the part keeps the tensor";
  }
  EXPECT_EQ(producer.deleted, 1);
}

// covers: memory_view B2
TEST(Dlpack, NullStridesAreCOrderAndANullDeleterIsFine) {
  Producer producer;
  producer.managed.tensor.strides = nullptr;
  producer.managed.deleter = nullptr;
  EXPECT_EQ(from_versioned(&producer.managed).layout().strides(), (Dims{3, 1}));
  producer.managed.tensor.ndim = 0;
  producer.managed.tensor.shape = nullptr;
  EXPECT_EQ(from_versioned(&producer.managed).layout().num_elems(), 1);
}

TEST(Dlpack, AnotherMajorVersionIsDeletedUnread) {
  Producer producer;
  producer.managed.version.major = 2;
  producer.managed.tensor.shape = nullptr;
  EXPECT_NE(producer.refusal().find("version 2.3"), std::string::npos);
  EXPECT_EQ(producer.deleted, 1);
}

TEST(Dlpack, MalformedTensorsAreRefusedAndDeletedOnce) {
  const auto refused = [](auto&& damage, const std::string& text) {
    Producer producer;
    damage(producer);
    const std::string refusal = producer.refusal();
    EXPECT_NE(refusal.find(text), std::string::npos) << refusal;
    EXPECT_EQ(producer.deleted, 1) << text;
  };
  refused([](Producer& p) { p.managed.tensor.ndim = -1; }, "usage: ndim -1");
  refused([](Producer& p) { p.managed.tensor.ndim = 65; }, "usage: ndim 65");
  refused([](Producer& p) { p.managed.tensor.shape = nullptr; }, "usage: shape NULL");
  refused([](Producer& p) { p.shape[0] = -2; }, "usage: shape (-2, 3)");
  refused([](Producer& p) { p.managed.tensor.data = nullptr; }, "usage: pointer 0");
  refused([](Producer& p) { p.shape[0] = p.shape[1] = std::int64_t{1} << 40; }, "data: shape");
  refused(
      [](Producer& p) {
        p.strides[0] = INT64_MAX;
        p.shape[0] = 3;
      },
      "data: ");
  refused([](Producer& p) { p.managed.tensor.byte_offset = UINT64_MAX; }, "usage: byte_offset");
  refused(
      [](Producer& p) {
        p.managed.tensor.dtype = DType{2, 32, 4};
      },
      "usage: DLPack type (code 2, bits 32, lanes 4)");
  refused([](Producer& p) { p.managed.tensor.dtype = DType{3, 64, 1}; }, "usage: DLPack type (code 3");
  refused([](Producer& p) { p.managed.tensor.dtype = DType{240, 64, 1}; }, "usage: DLPack type (code 240");
}

// covers: memory_view B11
TEST(Dlpack, PairedFloat4CountsSingleElements) {
  Producer producer;
  producer.managed.tensor.dtype = DType{17, 4, 2};
  const View view = from_versioned(&producer.managed);
  EXPECT_EQ(view.shape(), (Shape{2, 6}));
  EXPECT_EQ(view.dtype(), (DType{17, 4, 1}));
  EXPECT_EQ(view.nbytes(), 6);
}

// covers: memory_view B5
TEST(Dlpack, LegacyTensorsAreReadOnlyUnlessTheCallerKnowsBetter) {
  std::int64_t shape[1] = {2};
  float values[2] = {};
  ManagedTensor managed;
  managed.tensor = {values, Place{}, 1, dtypes::kFloat32, shape, nullptr, 0};
  EXPECT_TRUE(from_legacy(&managed).readonly());
  EXPECT_FALSE(from_legacy(&managed, true).readonly());
}

}  // namespace
}  // namespace loadstone::dlpack
