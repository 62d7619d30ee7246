#include "gateway/cost.h"

#include <algorithm>
#include <charconv>

#include "base/ascii.h"
#include "gateway/field_name.h"

namespace weir::gateway {

namespace {

Permits saturated(std::uint64_t bytes) {
  constexpr auto max = static_cast<std::uint64_t>(INT64_MAX);
  return static_cast<Permits>(std::min(bytes, max));
}

// Parses the single line of that name as a positive integer; nullopt if there are several lines.
std::optional<Permits> number_in(std::string_view name, FieldSpan fields) {
  const auto same = [&](const wire::HttpField& field) {
    return may_be_same_field(field.name, name);
  };
  const auto field = std::ranges::find_if(fields, same);
  if (field == fields.end() || std::ranges::count_if(fields, same) > 1) return std::nullopt;
  const std::string_view text = field->value;
  if (text.empty() || !std::ranges::all_of(text, is_digit)) return std::nullopt;
  Permits number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  // Too large for the type: saturate.
  if (error == std::errc::result_out_of_range) return INT64_MAX;
  return number > 0 ? std::optional(number) : std::nullopt;
}

}  // namespace

Permits cost_of(const RequestCost& cost, FieldSpan fields, std::optional<std::uint64_t> announced) {
  switch (cost.kind) {
    case RequestCost::CostKind::fixed:
      break;
    case RequestCost::CostKind::header:
      return std::min(number_in(cost.header, fields).value_or(cost.fixed), cost.most);
    case RequestCost::CostKind::bytes:
      return std::clamp<Permits>(saturated(announced.value_or(0)), 1,
                                 std::max<Permits>(cost.most, 1));
  }
  return cost.fixed;
}

Permits cost_correction(const RequestCost& cost, Permits taken, std::uint64_t request_body,
                        std::uint64_t response_body) {
  if (cost.kind != RequestCost::CostKind::bytes) return 0;
  const Permits sent = saturated(request_body);
  const Permits received = saturated(response_body);
  const Permits passed = sent > INT64_MAX - received ? INT64_MAX : sent + received;
  return std::max<Permits>(passed, 1) - taken;
}

}  // namespace weir::gateway
