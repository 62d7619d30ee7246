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

struct Known {
  ApiField field;
  std::string_view name;
  std::string_view kind;  // what its value is
};

constexpr auto kKnown = std::to_array<Known>({
    {ApiField::policy, "policy", "a text"},
    {ApiField::key, "key", "a text"},
    {ApiField::parts, "parts", "an object of texts"},
    {ApiField::permits, "permits", "a whole number"},
    {ApiField::max_wait_ms, "max_wait_ms", "a whole number"},
    {ApiField::wants_receipt, "receipt", "true or false"},
    {ApiField::receipt, "receipt", "a text"},
    {ApiField::delta, "delta", "a whole number"},
    {ApiField::holder, "holder", "a text"},
    {ApiField::limit, "limit", "a text"},
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
      return "a text";
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

std::string_view without_blanks_behind(std::string_view token) {
  return token.substr(0, token.find_last_not_of(" \t\r\n") + 1);
}

std::string syntax_error(simdjson::error_code code) {
  switch (code) {
    case simdjson::EMPTY:
      return "the body is empty";
    case simdjson::UTF8_ERROR:
      return "the body is not UTF-8";
    case simdjson::UNCLOSED_STRING:
      return "the body is not JSON: a text has no end";
    case simdjson::UNESCAPED_CHARS:
      return "the body is not JSON: a text holds a control character";
    case simdjson::STRING_ERROR:
      return "the body is not JSON: a text holds a malformed escape";
    case simdjson::CAPACITY:
    case simdjson::MEMALLOC:
      return "the body is too large";
    default:
      return "the body is not JSON";
  }
}

// Reads one item. Each of its functions answers false when the whole body turns out to be no JSON;
// that a value is not what it should be is noted in the item, and reading goes on.
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
    const Known* known = find(name, type);
    if (known == nullptr) {
      complain_of_unknown(name);
      return simdjson::SUCCESS;
    }
    if (!note(*known)) return simdjson::SUCCESS;
    return read_value(*known, value, type);
  }

  // The field of that name that is allowed here, the one with the right type if there are two.
  const Known* find(std::string_view name, json_type type) const {
    const Known* found = nullptr;
    for (const Known& known : kKnown) {
      if (known.name != name || !has(fields_.allowed, known.field)) continue;
      if (type == type_of(known.field)) return &known;
      if (found == nullptr) found = &known;
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

  bool note(const Known& known) {
    if (has(item_.request.given, known.field)) {
      complain(known.name, fmt::format("\"{}\" is there twice", known.name));
      return false;
    }
    item_.request.given = item_.request.given | known.field;
    return true;
  }

  simdjson::error_code read_value(const Known& known, ondemand::value value, json_type type) {
    if (type != type_of(known.field)) {
      complain_of_type(known, type_name(type));
      return simdjson::SUCCESS;
    }
    ApiRequest& request = item_.request;
    switch (known.field) {
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
        return read_number(known, value, request.permits, 0);
      case ApiField::max_wait_ms:
        return read_number(known, value, request.max_wait_ms, 0);
      case ApiField::delta:
        return read_number(known, value, request.delta, INT64_MIN);
      case ApiField::parts:
        return read_parts(value);
      case ApiField::none:
        break;
    }
    return simdjson::SUCCESS;
  }

  simdjson::error_code read_number(const Known& known, ondemand::value value,
                                   std::optional<std::int64_t>& number, std::int64_t least) {
    std::int64_t read = 0;
    if (value.get_int64().get(read) == simdjson::SUCCESS) {
      number = read;
      if (read < least) {
        complain(known.name, fmt::format("\"{}\" is at least {}", known.name, least));
      }
      return simdjson::SUCCESS;
    }
    // Whether it is a number at all: 1.5 and 1e3 are, 1x and 01 are not.
    const std::string_view token = without_blanks_behind(value.raw_json_token());
    double fraction = 0;
    const bool is_number = value.get_double().get(fraction) == simdjson::SUCCESS;
    if (is_digits(token) && (is_number || token.size() > 18)) {
      complain(known.name, fmt::format("\"{}\" is too large a number", known.name));
      return simdjson::SUCCESS;
    }
    if (!is_number) return simdjson::NUMBER_ERROR;
    complain_of_type(known, shortened(token));
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
      complain("parts", fmt::format("the part \"{}\" is a text, not {}", shortened(part.name),
                                    type_name(type)));
      return simdjson::SUCCESS;
    }
    if (const auto error = value.get_string().get(part.value)) return error;
    add_part(part);
    return simdjson::SUCCESS;
  }

  void add_part(const Part& part) {
    for (const Part& earlier : item_.request.parts.all()) {
      if (earlier.name != part.name) continue;
      complain("parts", fmt::format("the part \"{}\" is there twice", shortened(part.name)));
      return;
    }
    item_.request.parts.add(part);
    if (item_.request.parts.too_many()) {
      complain("parts", fmt::format("a key has at most {} parts", Parts::kMost));
    }
  }

  void check_required() {
    const ApiField given = item_.request.given;
    if (has(given, ApiField::key) && has(given, ApiField::parts)) {
      complain("parts", "there are \"key\" and \"parts\": one of them is enough");
    }
    if (has_all(given, fields_.required)) return;
    for (const Known& known : kKnown) {
      if (!has(fields_.required, known.field) || has(given, known.field)) continue;
      if (known.field == ApiField::key && has(fields_.allowed, ApiField::parts)) {
        if (!has(given, ApiField::parts)) complain("key", "\"key\" or \"parts\" is missing");
        continue;
      }
      complain(known.name, fmt::format("\"{}\" is missing", known.name));
    }
  }

  void complain_of_unknown(std::string_view name) {
    if (!item_.error.empty()) return;
    std::vector<std::string_view> names;
    for (const Known& known : kKnown) {
      if (has(fields_.allowed, known.field)) names.push_back(known.name);
    }
    complain(shortened(name), fmt::format("there is no field \"{}\" here{}", shortened(name),
                                          did_you_mean(name, names)));
  }

  void complain_of_type(const Known& known, std::string_view found) {
    complain(known.name, fmt::format("\"{}\" is {}, not {}", known.name, known.kind, found));
  }

  // The first complaint is the one to tell.
  void complain(std::string_view field, std::string message) {
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
  std::string text;  // the body, with room behind it for the parser to read in large steps
  std::vector<ApiItem> items;
  std::size_t used = 0;
  std::string error;

  ApiBody read(std::string_view body, const ApiFields& fields);
  simdjson::error_code read_document(const ApiFields& fields, bool& is_batch);
  simdjson::error_code read_batch(ondemand::array array, const ApiFields& fields);
  bool is_json_throughout() const;
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
  if (error.empty() && is_batch && !is_json_throughout())
    error = syntax_error(simdjson::TAPE_ERROR);
  if (!error.empty()) return {.is_batch = is_batch, .error = error};
  return {.is_batch = is_batch, .items = std::span(items).first(used)};
}

// What is wrong with an item is not read further, and could be anything: nothing is done for a body
// that is no JSON.
bool JsonReader::Impl::is_json_throughout() const {
  const auto is_wrong = [](const ApiItem& item) { return !item.error.empty(); };
  if (std::none_of(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(used), is_wrong)) {
    return true;
  }
  simdjson::dom::parser all;
  constexpr bool copies = false;  // there is room behind it
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
    if (used == kMostItems) {
      error = fmt::format("a batch has at most {} items", kMostItems);
      return simdjson::SUCCESS;
    }
    json_type type{};
    if (const auto code = value.type().get(type)) return code;
    ApiItem& item = new_item();
    if (type != json_type::object) {
      item.error = fmt::format("an item of a batch is an object, not {}", type_name(type));
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
