#include "loadstone/format/hdf5_types.h"

#include <array>
#include <cstring>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"

namespace loadstone::hdf5 {

namespace {

constexpr int kBigEndian = 1;

struct FloatLayout {
  DType dtype;
  std::size_t size, sign, exponent, exponent_bits, mantissa, mantissa_bits, bias;
};
constexpr std::array<FloatLayout, 4> kFloats{{{dtypes::kFloat16, 2, 15, 10, 5, 0, 10, 15},
                                              {dtypes::kBFloat16, 2, 15, 7, 8, 0, 7, 127},
                                              {dtypes::kFloat32, 4, 31, 23, 8, 0, 23, 127},
                                              {dtypes::kFloat64, 8, 63, 52, 11, 0, 52, 1023}}};

ElementType other(std::string what) {
  ElementType out;
  out.what = std::move(what);
  return out;
}

std::string member_name(const Library& lib, hid_t type, unsigned k) {
  char* name = lib.H5Tget_member_name(type, k);
  if (name == nullptr) return "?";
  std::string out(name);
  lib.H5free_memory(name);
  return out;
}

ElementType plain(const Library& lib, hid_t type, DType dtype) {
  ElementType out;
  out.element = DiskType{
      dtype, lib.H5Tget_order(type) == kBigEndian && dtype.swap_bytes() > 1 ? ByteOrder::big : ByteOrder::little};
  return out;
}

ElementType integer(const Library& lib, hid_t type, bool is_signed) {
  const std::size_t size = lib.H5Tget_size(type), precision = lib.H5Tget_precision(type);
  const bool usual = (size == 1 || size == 2 || size == 4 || size == 8) && precision == 8 * size;
  if (!usual || lib.H5Tget_offset(type) != 0) {
    return other(cat("an integer type of ", precision, " bits in ", size, " bytes"));
  }
  DType dtype;
  dtype.code = is_signed ? 0 : 1;
  dtype.bits = static_cast<std::uint8_t>(8 * size);
  return plain(lib, type, dtype);
}

ElementType floating(const Library& lib, hid_t type) {
  FloatLayout f{};
  f.size = lib.H5Tget_size(type);
  if (lib.H5Tget_fields(type, &f.sign, &f.exponent, &f.exponent_bits, &f.mantissa, &f.mantissa_bits) < 0) {
    return other("a float type of unknown layout");
  }
  f.bias = lib.H5Tget_ebias(type);
  for (const FloatLayout& k : kFloats) {
    if (k.size == f.size && k.sign == f.sign && k.exponent == f.exponent && k.exponent_bits == f.exponent_bits &&
        k.mantissa == f.mantissa && k.mantissa_bits == f.mantissa_bits && k.bias == f.bias &&
        lib.H5Tget_precision(type) == 8 * k.size) {
      return plain(lib, type, k.dtype);
    }
  }
  return other(cat("a float type of ", f.exponent_bits, " exponent and ", f.mantissa_bits, " mantissa bits in ", f.size,
                   " bytes, bias ", f.bias));
}

bool is_bool(const Library& lib, hid_t type) {
  if (lib.H5Tget_size(type) != 1 || lib.H5Tget_nmembers(type) != 2) return false;
  for (unsigned k = 0; k < 2; ++k) {
    std::array<unsigned char, 8> value{};
    lib.H5Tget_member_value(type, k, value.data());
    const std::string name = member_name(lib, type, k);
    if (!((name == "FALSE" && value[0] == 0) || (name == "TRUE" && value[0] == 1))) return false;
  }
  return true;
}

/// Real and imaginary part of one float type.
ElementType complex_of(const ElementType& part, std::size_t size) {
  if (!part.element || part.element->dtype.code != 2 || part.element->dtype.bits < 32 ||
      size != 2 * static_cast<std::size_t>(part.element->dtype.itemsize())) {
    return other("a complex type of unusual parts");
  }
  ElementType out = part;
  out.element->dtype = size == 8 ? dtypes::kComplex64 : dtypes::kComplex128;
  return out;
}

ElementType compound(const Library& lib, hid_t type) {
  const int members = lib.H5Tget_nmembers(type);
  std::string names;
  for (unsigned k = 0; k < static_cast<unsigned>(std::max(members, 0)) && k < 8; ++k) {
    names += cat(k == 0 ? "" : ", ", printable(member_name(lib, type, k)));
  }
  if (members == 2 && names == "r, i") {
    const Id real(lib.H5Tget_member_type(type, 0), lib.H5Tclose),
        imaginary(lib.H5Tget_member_type(type, 1), lib.H5Tclose);
    const std::size_t size = lib.H5Tget_size(type);
    if (real.good() && imaginary.good() && lib.H5Tget_member_offset(type, 0) == 0 &&
        lib.H5Tget_member_offset(type, 1) * 2 == size) {
      const ElementType a = element_type(lib, real.get()), b = element_type(lib, imaginary.get());
      if (a.element && b.element && *a.element == *b.element) {
        if (ElementType out = complex_of(a, size); out.element) return out;
      }
    }
  }
  return other(cat("a compound type of ", members, " fields: ", names, members > 8 ? ", …" : ""));
}

ElementType array(const Library& lib, hid_t type) {
  const Id super(lib.H5Tget_super(type), lib.H5Tclose);
  const int ndims = lib.H5Tget_array_ndims(type);
  if (!super.good() || ndims < 1) return other("an array type that cannot be read");
  ElementType out = element_type(lib, super.get());
  if (!out.element) return other(cat("an array type of ", out.what));
  std::vector<hsize_t> dims(static_cast<std::size_t>(ndims));
  lib.H5Tget_array_dims2(type, dims.data());
  Shape inner;
  for (const hsize_t d : dims) inner.push_back(static_cast<std::int64_t>(d));
  for (const std::int64_t d : out.inner) inner.push_back(d);
  out.inner = std::move(inner);
  return out;
}

ElementType of_class(const Library& lib, hid_t type) {
  switch (const int type_class = lib.H5Tget_class(type); type_class) {
    case kInteger: return integer(lib, type, lib.H5Tget_sign(type) != 0);
    case kBitfield: return integer(lib, type, false);
    case kFloat: return floating(lib, type);
    case kCompound: return compound(lib, type);
    case kArray: return array(lib, type);
    case kEnum: {
      if (is_bool(lib, type)) return plain(lib, type, dtypes::kBool);
      const Id super(lib.H5Tget_super(type), lib.H5Tclose);
      return super.good() ? element_type(lib, super.get()) : other("an enum type that cannot be read");
    }
    case kComplex: {
      const Id super(lib.H5Tget_super(type), lib.H5Tclose);
      return complex_of(element_type(lib, super.get()), lib.H5Tget_size(type));
    }
    case kOpaque:
    case kTime: {
      ElementType out =
          other(cat(type_class == kOpaque ? "an opaque type" : "a time type", " of ", lib.H5Tget_size(type), " bytes"));
      out.lost = true;
      return out;
    }
    case 3: return other("a string type");
    case 7: return other("a reference type");
    case 9: return other("a variable-length type");
    default: return other(cat("a type of unknown class ", type_class));
  }
}

}  // namespace

ElementType element_type(const Library& lib, hid_t type) {
  ElementType out = of_class(lib, type);
  out.size_bytes = static_cast<std::int64_t>(lib.H5Tget_size(type));
  return out;
}

}  // namespace loadstone::hdf5
