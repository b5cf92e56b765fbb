// npy, and raw: the same without a header.

#include <algorithm>

#include "loadstone/base/cat.h"
#include "loadstone/format/writers/writer.h"

namespace loadstone {

namespace {

std::string npy_refusal(const NewArray& array) {
  return array.dtype.whole_bytes() ? "" : "its elements fill no whole bytes";
}

std::string raw_refusal(const NewArray& array) {
  if (!array.dtype.whole_bytes()) return "its elements fill no whole bytes";
  const bool bytes = !array.shape.empty() &&
                     std::all_of(array.shape.begin() + 1, array.shape.end(), [](std::int64_t n) { return n > 0; });
  return bytes ? "" : "its rows have no bytes, so that a file without a header cannot tell their number";
}

std::int64_t buffer(const NewFile&) {
  return kPullBytes;
}

void write_raw(const NewFile& file, FileWriter& out) {
  pull_in_order(file, 0, [&](std::span<const std::byte> bytes) { out.write(bytes.data(), bytes.size()); });
}

void write_npy(const NewFile& file, FileWriter& out) {
  const std::string header = npy_header(file.arrays[0].dtype, file.arrays[0].shape);
  out.write(header.data(), header.size());
  write_raw(file, out);
}

}  // namespace

std::string npy_header(DType dtype, const Shape& shape) {
  std::string descr = numpy_typestr(dtype);
  // As ml_dtypes stores them: the reader has to name the type.
  if (descr.empty()) descr = cat(dtype.itemsize() == 1 ? "|V" : "<V", dtype.itemsize());
  std::string dict = cat("{'descr': '", descr, "', 'fortran_order': False, 'shape': ", to_string(shape), ", }");
  constexpr std::size_t kPrefix = 10;  // padded with blanks so that the elements start at a multiple of 64
  dict.append(63 - (kPrefix + dict.size()) % 64, ' ');
  dict.push_back('\n');
  std::string out("\x93NUMPY\x01\x00", 8);
  out.push_back(static_cast<char>(dict.size() & 0xFFU));
  out.push_back(static_cast<char>(dict.size() >> 8U));
  return out + dict;
}

extern const Writer npy_writer, raw_writer;
const Writer npy_writer{
    .name = "npy", .extension = ".npy", .codecs = {}, .refusal = npy_refusal, .memory = buffer, .write = write_npy};
const Writer raw_writer{
    .name = "raw", .extension = ".bin", .codecs = {}, .refusal = raw_refusal, .memory = buffer, .write = write_raw};

}  // namespace loadstone
