#pragma once

#include <string>
#include <vector>

#include "wire/h2.h"

namespace weir::wire {

// Lines of HTTP/1 ("Name: value", each with its CRLF) as fields of HTTP/2, behind those that are
// there. They borrow from `lines`, in which the names are written small.
void append_fields(std::vector<H2Field>& to, std::string& lines);

}  // namespace weir::wire
