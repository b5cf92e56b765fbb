#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "loadstone/array/dims.h"
#include "loadstone/io/byte_source.h"

namespace loadstone::zarr {

using Json = nlohmann::json;

/// The JSON object in a metadata file. Error{data} for anything else, and for what is too large or nested too deeply.
Json parse_metadata(ByteSource& source);

// Members of an object. Error{data} without a file name, naming the key, for those that are missing or of another kind.
const Json& member(const Json& json, const char* key);
std::string string_member(const Json& json, const char* key);
Shape dims_member(const Json& json, const char* key, std::int64_t least);
std::int64_t whole_number(const Json& value, const char* key, std::int64_t least, std::int64_t most);
/// The object 'configuration', or an empty one.
const Json& configuration(const Json& json);

/// A string as it is, anything else as JSON; `quoted` in quotes, safe to print.
std::string text_of(const Json& value);
std::string quoted(const Json& value);

}  // namespace loadstone::zarr
