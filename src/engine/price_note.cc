#include "engine/price_note.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <type_traits>

namespace weir::engine {

namespace {

constexpr std::uint32_t kNoLayer = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t kDefaultsNumber = kNoLayer;

// ---- Writing

class NoteWriter {
 public:
  template <typename Number>
  requires std::is_arithmetic_v<Number>
  void put(Number number) { text_.append(reinterpret_cast<const char*>(&number), sizeof number); }
  void put(std::string_view bytes) {
    count(bytes.size());
    text_ += bytes;
  }
  void put(Instant at) { put(ns(at)); }
  void count(std::size_t number) { put(static_cast<std::uint32_t>(number)); }

  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void put(NoteWriter& to, const LimitPrices& prices) {
  to.count(prices.size());
  for (const LimitPrice& price : prices) {
    const auto bits = static_cast<UInt128>(price.interval.price);
    to.put(price.identity);
    to.put(price.stamp);
    to.put(price.capacity);
    to.put(price.interval.parts);
    to.put(static_cast<std::uint64_t>(bits >> 64));
    to.put(static_cast<std::uint64_t>(bits));
    to.put(static_cast<std::uint8_t>(price.frozen));
  }
}

void put(NoteWriter& to, const PriceLayer& layer) {
  to.count(layer.patterns.size());
  for (std::size_t i = 0; i < layer.patterns.size(); ++i) {
    to.put(static_cast<std::uint8_t>(layer.patterns[i].prefix));
    to.put(layer.patterns[i].text);
    put(to, layer.limits[i]);
  }
  to.count(layer.boosted.size());
  for (const std::size_t own : layer.boosted) {
    to.count(own == PriceLayer::kDefaults ? kDefaultsNumber : own);
  }
}

// Numbers the layers: epochs share layers, and each is written once.
class LayerNumbers {
 public:
  std::uint32_t number_of(const PriceLayer* layer) {
    if (layer == nullptr) return kNoLayer;
    const auto [at, added] =
        numbers_.try_emplace(layer, static_cast<std::uint32_t>(numbers_.size()));
    if (added) all_.push_back(layer);
    return at->second;
  }
  const std::vector<const PriceLayer*>& all() const { return all_; }

 private:
  std::map<const PriceLayer*, std::uint32_t> numbers_;
  std::vector<const PriceLayer*> all_;
};

void put(NoteWriter& to, std::string_view name, const PolicyEpochs& epochs, std::size_t max_epochs,
         LayerNumbers& layers) {
  const std::size_t first = epochs.size() - std::min(epochs.size(), max_epochs);
  to.put(name);
  to.count(epochs.size() - first);
  for (std::size_t i = first; i < epochs.size(); ++i) {
    const PolicyEpoch& epoch = *epochs[i];
    to.put(epoch.number);
    to.put(epoch.since);
    put(to, epoch.prices.defaults);
    to.count(layers.number_of(epoch.prices.boosts.get()));
    to.count(layers.number_of(epoch.prices.overrides.get()));
  }
}

// The note with at most `most_epochs` epochs of each policy.
std::string written(const Rules& rules, std::size_t max_epochs, bool with_removed) {
  NoteWriter policies;
  LayerNumbers layers;
  std::size_t count = 0;
  if (max_epochs > 0) {
    for (const auto& [name, policy] : rules.policies) {
      put(policies, name, *policy.epochs, max_epochs, layers);
      ++count;
    }
  }
  if (with_removed) {
    for (const auto& [name, epochs] : rules.removed) {
      put(policies, name, *epochs, max_epochs, layers);
      ++count;
    }
  }
  NoteWriter to;
  to.put(rules.edition);
  to.put(rules.since);
  const auto& rises = rules.slower.prices();
  to.count(max_epochs > 0 ? rises.size() : 0);
  for (std::size_t i = 0; max_epochs > 0 && i < rises.size(); ++i) {
    to.put(rises[i].stamp);
    to.put(rises[i].since);
    to.put(rises[i].until);
    to.put(rises[i].ratio);
  }
  to.count(layers.all().size());
  for (const PriceLayer* layer : layers.all()) put(to, *layer);
  to.count(count);
  return to.take() + policies.take();
}

// ---- Reading

class NoteReader {
 public:
  explicit NoteReader(std::string_view text) : rest_(text) {}

  bool failed() const { return failed_; }
  bool at_end() const { return rest_.empty(); }

  template <typename Number>
  Number get() {
    Number number{};
    if (!has(sizeof number)) return number;
    std::memcpy(&number, rest_.data(), sizeof number);
    rest_.remove_prefix(sizeof number);
    return number;
  }
  Instant instant() { return weir::instant(get<std::int64_t>()); }
  std::string_view text() {
    const std::size_t size = get<std::uint32_t>();
    if (!has(size)) return {};
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }
  // Reads a number of elements of at least `least` bytes each.
  std::size_t count(std::size_t element_bytes) {
    const std::size_t number = get<std::uint32_t>();
    return has(number * element_bytes) ? number : 0;
  }
  void fail() { failed_ = true; }

 private:
  bool has(std::size_t bytes) {
    failed_ = failed_ || bytes > rest_.size();
    return !failed_;
  }

  std::string_view rest_;
  bool failed_ = false;
};

LimitPrices get_prices(NoteReader& from) {
  constexpr std::size_t bytes = 6 * sizeof(std::uint64_t) + 1;
  constexpr Int128 highest = Int128{1} << 125;
  LimitPrices prices(from.count(bytes));
  for (LimitPrice& price : prices) {
    price.identity = from.get<std::uint64_t>();
    price.stamp = from.get<std::uint64_t>();
    price.capacity = from.get<std::int64_t>();
    price.interval.parts = from.get<std::int64_t>();
    const auto high = static_cast<UInt128>(from.get<std::uint64_t>());
    price.interval.price = static_cast<Int128>(high << 64 | from.get<std::uint64_t>());
    price.frozen = from.get<std::uint8_t>() != 0;
    const bool is_possible = price.capacity > 0 && price.capacity <= core::kMaxPermits &&
                             price.interval.parts > 0 && price.interval.price > 0 &&
                             price.interval.price < highest;
    if (!is_possible) from.fail();
  }
  return prices;
}

std::shared_ptr<const PriceLayer> get_layer(NoteReader& from) {
  auto layer = std::make_shared<PriceLayer>();
  const std::size_t patterns = from.count(1 + 2 * sizeof(std::uint32_t));
  for (std::size_t i = 0; i < patterns && !from.failed(); ++i) {
    const bool prefix = from.get<std::uint8_t>() != 0;
    layer->patterns.push_back({std::string(from.text()), prefix});
    layer->limits.push_back(get_prices(from));
  }
  const std::size_t boosted = from.count(sizeof(std::uint32_t));
  for (std::size_t i = 0; i < boosted; ++i) {
    const auto own = from.get<std::uint32_t>();
    layer->boosted.push_back(own == kDefaultsNumber ? PriceLayer::kDefaults : own);
  }
  layer->index = policy::PatternIndex(layer->patterns);
  return layer;
}

using ReadLayers = std::vector<std::shared_ptr<const PriceLayer>>;

std::shared_ptr<const PriceLayer> get_layer_of(NoteReader& from, const ReadLayers& layers) {
  const auto number = from.get<std::uint32_t>();
  if (number == kNoLayer) return nullptr;
  if (number < layers.size()) return layers[number];
  from.fail();
  return nullptr;
}

std::shared_ptr<const PolicyEpochs> get_epochs(NoteReader& from, const ReadLayers& layers) {
  auto epochs = std::make_shared<PolicyEpochs>();
  const std::size_t count = from.count(sizeof(core::EpochNumber) + sizeof(std::int64_t));
  for (std::size_t i = 0; i < count && !from.failed(); ++i) {
    auto epoch = std::make_shared<PolicyEpoch>();
    epoch->number = from.get<core::EpochNumber>();
    epoch->since = from.instant();
    epoch->prices.defaults = get_prices(from);
    epoch->prices.boosts = get_layer_of(from, layers);
    epoch->prices.overrides = get_layer_of(from, layers);
    const PriceLayer* const boosts = epoch->prices.boosts.get();
    if (boosts != nullptr && boosts->boosted.size() != boosts->patterns.size()) from.fail();
    if (from.failed()) break;
    epoch->debt_bound = DebtBound::of(epoch->prices);
    epochs->push_back(std::move(epoch));
  }
  if (epochs->empty()) from.fail();
  return epochs;
}

store::SlowerLimits get_rises(NoteReader& from) {
  store::SlowerLimits slower;
  const std::size_t count = from.count(4 * sizeof(std::uint64_t));
  for (std::size_t i = 0; i < count; ++i) {
    store::SlowerLimits::PriceRise rise;
    rise.stamp = from.get<std::uint64_t>();
    rise.since = from.instant();
    rise.until = from.instant();
    rise.ratio = from.get<double>();
    if (rise.ratio >= 1) slower.add(rise);
  }
  return slower;
}

}  // namespace

std::string price_note(const Rules& rules, std::size_t max_bytes) {
  std::size_t epochs = 0;
  for (const auto& [name, policy] : rules.policies) {
    epochs = std::max(epochs, policy.epochs->size());
  }
  for (const auto& [name, removed] : rules.removed) epochs = std::max(epochs, removed->size());
  std::string note = written(rules, epochs, true);
  if (note.size() > max_bytes) note = written(rules, epochs, false);
  while (note.size() > max_bytes && epochs > 0) {
    epochs /= 2;
    note = written(rules, epochs, false);
  }
  return note;
}

std::optional<Rules> read_price_note(std::string_view note, StringPool& strings) {
  NoteReader from(note);
  Rules rules = no_rules(from.get<std::uint64_t>());
  rules.since = from.instant();
  rules.slower = get_rises(from);
  ReadLayers layers(from.count(2 * sizeof(std::uint32_t)));
  for (auto& layer : layers) layer = get_layer(from);
  const std::size_t policies = from.count(2 * sizeof(std::uint32_t));
  for (std::size_t i = 0; i < policies && !from.failed(); ++i) {
    const std::string_view name = *strings.emplace(from.text()).first;
    rules.removed.insert_or_assign(name, get_epochs(from, layers));
  }
  if (from.failed() || !from.at_end()) return std::nullopt;
  return rules;
}

}  // namespace weir::engine
