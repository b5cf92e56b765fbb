#pragma once

#include "loadstone/format/arrow/plugin.h"

namespace loadstone {

/// Writes the table through its callbacks, one row group or record batch at a time. Throws what Arrow says.
void write_table(const TableToWrite& table);

}  // namespace loadstone
