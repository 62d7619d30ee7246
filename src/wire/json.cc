#include "wire/json.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/saturating.h"
#include "base/suggest.h"
#include "base/utf8.h"

namespace weir::wire {

namespace {

namespace ondemand = simdjson::ondemand;
using ondemand::json_type;

struct FieldSpec {
  ApiField field;
  std::string_view name;
  std::string_view type;  // of its value, for messages
};

constexpr auto kFieldSpecs = std::to_array<FieldSpec>({
    {ApiField::policy, "policy", "a string"},
    {ApiField::key, "key", "a string"},
    {ApiField::parts, "parts", "an object of strings"},
    {ApiField::permits, "permits", "a whole number"},
    {ApiField::max_wait_ms, "max_wait_ms", "a whole number"},
    {ApiField::wants_receipt, "receipt", "true or false"},
    {ApiField::receipt, "receipt", "a string"},
    {ApiField::delta, "delta", "a whole number"},
    {ApiField::holder, "holder", "a string"},
    {ApiField::limit, "limit", "a string"},
    {ApiField::skip_missing, "skip_missing", "true or false"},
});

std::string_view type_name(json_type type) {
  switch (type) {
    case json_type::array:
      return "an array";
    case json_type::object:
      return "an object";
    case json_type::number:
      return "a number";
    case json_type::string:
      return "a string";
    case json_type::boolean:
      return "true or false";
    case json_type::null:
      return "null";
  }
  return "something else";
}

bool is_digits(std::string_view token) {
  if (token.starts_with('-')) token.remove_prefix(1);
  return token.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string_view trimmed_right(std::string_view token) {
  return token.substr(0, token.find_last_not_of(" \t\r\n") + 1);
}

std::string syntax_error(simdjson::error_code code) {
  switch (code) {
    case simdjson::EMPTY:
      return "the body is empty";
    case simdjson::UTF8_ERROR:
      return "the body is not UTF-8";
    case simdjson::UNCLOSED_STRING:
      return "the body is not JSON: a string is not closed";
    case simdjson::UNESCAPED_CHARS:
      return "the body is not JSON: a string holds a control character";
    case simdjson::STRING_ERROR:
      return "the body is not JSON: a string holds a malformed escape";
    case simdjson::CAPACITY:
    case simdjson::MEMALLOC:
      return "the body is too large";
    default:
      return "the body is not JSON";
  }
}

// Reads one item. Its functions return an error only if the body as a whole is not JSON. An invalid
// value sets the item's error, and reading continues.
class ItemReader {
 public:
  ItemReader(ApiItem& item, const ApiFields& fields) : item_(item), fields_(fields) {}

  simdjson::error_code read(ondemand::object object) {
    for (auto field : object) {
      if (const auto error = read_field(field)) return error;
    }
    check_required();
    return simdjson::SUCCESS;
  }

 private:
  simdjson::error_code read_field(simdjson::simdjson_result<ondemand::field> field) {
    std::string_view name;
    if (const auto error = field.unescaped_key().get(name)) return error;
    ondemand::value value;
    if (const auto error = field.value().get(value)) return error;
    json_type type{};
    if (const auto error = value.type().get(type)) return error;
    const FieldSpec* spec = find(name, type);
    if (spec == nullptr) {
      set_unknown_field(name);
      return simdjson::SUCCESS;
    }
    if (!mark_given(*spec)) return simdjson::SUCCESS;
    return read_value(*spec, value, type);
  }

  // The field of that name that is allowed here. If two share the name, the one with the given
  // type.
  const FieldSpec* find(std::string_view name, json_type type) const {
    const FieldSpec* found = nullptr;
    for (const FieldSpec& spec : kFieldSpecs) {
      if (spec.name != name || !has(fields_.allowed, spec.field)) continue;
      if (type == type_of(spec.field)) return &spec;
      if (found == nullptr) found = &spec;
    }
    return found;
  }

  static json_type type_of(ApiField field) {
    switch (field) {
      case ApiField::parts:
        return json_type::object;
      case ApiField::permits:
      case ApiField::max_wait_ms:
      case ApiField::delta:
        return json_type::number;
      case ApiField::wants_receipt:
      case ApiField::skip_missing:
        return json_type::boolean;
      default:
        return json_type::string;
    }
  }

  bool mark_given(const FieldSpec& spec) {
    if (has(item_.request.given, spec.field)) {
      set_error(spec.name, fmt::format("\"{}\" is given twice", spec.name));
      return false;
    }
    item_.request.given = item_.request.given | spec.field;
    return true;
  }

  simdjson::error_code read_value(const FieldSpec& spec, ondemand::value value, json_type type) {
    if (type != type_of(spec.field)) {
      set_wrong_type(spec, type_name(type));
      return simdjson::SUCCESS;
    }
    ApiRequest& request = item_.request;
    switch (spec.field) {
      case ApiField::policy:
        return value.get_string().get(request.policy);
      case ApiField::key:
        return value.get_string().get(request.key);
      case ApiField::receipt:
        return value.get_string().get(request.receipt);
      case ApiField::holder:
        return value.get_string().get(request.holder);
      case ApiField::limit:
        return value.get_string().get(request.limit);
      case ApiField::wants_receipt:
        return value.get_bool().get(request.wants_receipt);
      case ApiField::skip_missing:
        return value.get_bool().get(request.skip_missing);
      case ApiField::permits:
        return read_number(spec, value, request.permits, 0);
      case ApiField::max_wait_ms:
        return read_number(spec, value, request.max_wait_ms, 0);
      case ApiField::delta:
        return read_number(spec, value, request.delta, INT64_MIN);
      case ApiField::parts:
        return read_parts(value);
      case ApiField::none:
        break;
    }
    return simdjson::SUCCESS;
  }

  simdjson::error_code read_number(const FieldSpec& spec, ondemand::value value,
                                   std::optional<std::int64_t>& number, std::int64_t min) {
    std::int64_t read = 0;
    if (value.get_int64().get(read) == simdjson::SUCCESS) {
      number = read;
      if (read < min) {
        set_error(spec.name, fmt::format("\"{}\" must be at least {}", spec.name, min));
      }
      return simdjson::SUCCESS;
    }
    // Tells numbers out of range or with a fraction (1.5, 1e3) from malformed ones (1x, 01).
    const std::string_view token = trimmed_right(value.raw_json_token());
    double fraction = 0;
    const bool is_number = value.get_double().get(fraction) == simdjson::SUCCESS;
    if (is_digits(token) && (is_number || token.size() > 18)) {
      set_error(spec.name, fmt::format("\"{}\" is out of the range of 64-bit integers", spec.name));
      return simdjson::SUCCESS;
    }
    if (!is_number) return simdjson::NUMBER_ERROR;
    set_wrong_type(spec, shortened(token));
    return simdjson::SUCCESS;
  }

  simdjson::error_code read_parts(ondemand::value value) {
    ondemand::object object;
    if (const auto error = value.get_object().get(object)) return error;
    for (auto field : object) {
      if (const auto error = read_part(field)) return error;
    }
    return simdjson::SUCCESS;
  }

  simdjson::error_code read_part(simdjson::simdjson_result<ondemand::field> field) {
    Part part;
    if (const auto error = field.unescaped_key().get(part.name)) return error;
    ondemand::value value;
    if (const auto error = field.value().get(value)) return error;
    json_type type{};
    if (const auto error = value.type().get(type)) return error;
    if (type != json_type::string) {
      set_error("parts", fmt::format("the part \"{}\" must be a string, not {}",
                                     shortened(part.name), type_name(type)));
      return simdjson::SUCCESS;
    }
    if (const auto error = value.get_string().get(part.value)) return error;
    add_part(part);
    return simdjson::SUCCESS;
  }

  void add_part(const Part& part) {
    for (const Part& earlier : item_.request.parts.all()) {
      if (earlier.name != part.name) continue;
      set_error("parts", fmt::format("the part \"{}\" is given twice", shortened(part.name)));
      return;
    }
    item_.request.parts.add(part);
    if (item_.request.parts.too_many()) {
      set_error("parts", fmt::format("a key has at most {} parts", Parts::kMax));
    }
  }

  void check_required() {
    const ApiField given = item_.request.given;
    if (has(given, ApiField::key) && has(given, ApiField::parts)) {
      set_error("parts", "both \"key\" and \"parts\" are given: use one of them");
    }
    if (has_all(given, fields_.required)) return;
    for (const FieldSpec& spec : kFieldSpecs) {
      if (!has(fields_.required, spec.field) || has(given, spec.field)) continue;
      if (spec.field == ApiField::key && has(fields_.allowed, ApiField::parts)) {
        if (!has(given, ApiField::parts)) set_error("key", "\"key\" or \"parts\" is missing");
        continue;
      }
      set_error(spec.name, fmt::format("\"{}\" is missing", spec.name));
    }
  }

  void set_unknown_field(std::string_view name) {
    if (!item_.error.empty()) return;
    std::vector<std::string_view> names;
    for (const FieldSpec& spec : kFieldSpecs) {
      if (has(fields_.allowed, spec.field)) names.push_back(spec.name);
    }
    set_error(shortened(name),
              fmt::format("unknown field \"{}\"{}", shortened(name), did_you_mean(name, names)));
  }

  void set_wrong_type(const FieldSpec& spec, std::string_view found) {
    set_error(spec.name, fmt::format("\"{}\" must be {}, not {}", spec.name, spec.type, found));
  }

  // Keeps the first error.
  void set_error(std::string_view field, std::string message) {
    if (!item_.error.empty()) return;
    item_.error = std::move(message);
    item_.error_field = field;
  }

  ApiItem& item_;
  const ApiFields& fields_;
};

}  // namespace

std::optional<Nanos> ApiRequest::max_wait() const {
  if (!max_wait_ms) return std::nullopt;
  return Nanos{to_int64(Int128{*max_wait_ms} * 1'000'000)};
}

struct JsonReader::Impl {
  ondemand::parser parser;
  std::string text;  // the body, with the padding that simdjson requires
  std::vector<ApiItem> items;
  std::size_t used = 0;
  std::string error;

  ApiBody read(std::string_view body, const ApiFields& fields);
  simdjson::error_code read_document(const ApiFields& fields, bool& is_batch);
  simdjson::error_code read_batch(ondemand::array array, const ApiFields& fields);
  bool is_valid_json() const;
  ApiItem& new_item();
};

JsonReader::JsonReader() : impl_(std::make_unique<Impl>()) {}
JsonReader::~JsonReader() = default;
JsonReader::JsonReader(JsonReader&& other) noexcept = default;
JsonReader& JsonReader::operator=(JsonReader&& other) noexcept = default;

ApiBody JsonReader::read(std::string_view body, ApiFields fields) {
  return impl_->read(body, fields);
}

ApiBody JsonReader::Impl::read(std::string_view body, const ApiFields& fields) {
  used = 0;
  error.clear();
  text.assign(body).append(simdjson::SIMDJSON_PADDING, ' ');
  bool is_batch = false;
  const simdjson::error_code code = read_document(fields, is_batch);
  if (code != simdjson::SUCCESS && error.empty()) error = syntax_error(code);
  if (error.empty() && is_batch && !is_valid_json()) error = syntax_error(simdjson::TAPE_ERROR);
  if (!error.empty()) return {.is_batch = is_batch, .error = error};
  return {.is_batch = is_batch, .items = std::span(items).first(used)};
}

// The rest of an invalid item is not read, so the body may still be malformed there. A malformed
// body is refused as a whole.
bool JsonReader::Impl::is_valid_json() const {
  const auto is_wrong = [](const ApiItem& item) { return !item.error.empty(); };
  if (std::none_of(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(used), is_wrong)) {
    return true;
  }
  simdjson::dom::parser all;
  constexpr bool copies = false;  // the text is padded
  const std::size_t size = text.size() - simdjson::SIMDJSON_PADDING;
  return all.parse(text.data(), size, copies).error() == simdjson::SUCCESS;
}

simdjson::error_code JsonReader::Impl::read_document(const ApiFields& fields, bool& is_batch) {
  ondemand::document document;
  const std::size_t size = text.size() - simdjson::SIMDJSON_PADDING;
  if (const auto code = parser.iterate(text.data(), size, text.size()).get(document)) return code;
  json_type type{};
  if (const auto code = document.type().get(type)) return code;
  is_batch = type == json_type::array;
  if (type == json_type::object) {
    ondemand::object object;
    if (const auto code = document.get_object().get(object)) return code;
    if (const auto code = ItemReader(new_item(), fields).read(object)) return code;
  } else if (is_batch) {
    ondemand::array array;
    if (const auto code = document.get_array().get(array)) return code;
    if (const auto code = read_batch(array, fields)) return code;
  } else {
    error = "the body is neither an object nor an array of them";
    return simdjson::SUCCESS;
  }
  if (!error.empty()) return simdjson::SUCCESS;
  // There is nothing behind the end if that is where it stands.
  const bool at_end = document.current_location().error() == simdjson::OUT_OF_BOUNDS;
  return at_end ? simdjson::SUCCESS : simdjson::TAPE_ERROR;
}

simdjson::error_code JsonReader::Impl::read_batch(ondemand::array array, const ApiFields& fields) {
  for (auto element : array) {
    ondemand::value value;
    if (const auto code = element.get(value)) return code;
    if (used == kMaxItems) {
      error = fmt::format("a batch has at most {} items", kMaxItems);
      return simdjson::SUCCESS;
    }
    json_type type{};
    if (const auto code = value.type().get(type)) return code;
    ApiItem& item = new_item();
    if (type != json_type::object) {
      item.error = fmt::format("an item of a batch must be an object, not {}", type_name(type));
      continue;
    }
    ondemand::object object;
    if (const auto code = value.get_object().get(object)) return code;
    if (const auto code = ItemReader(item, fields).read(object)) return code;
  }
  return simdjson::SUCCESS;
}

ApiItem& JsonReader::Impl::new_item() {
  if (used == items.size()) items.emplace_back();
  ApiItem& item = items[used++];
  item.request = {};
  item.error.clear();
  item.error_field.clear();
  return item;
}

}  // namespace weir::wire
