#include "policy/limit_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/suggest.h"
#include "policy/limit.h"
#include "policy/units.h"

namespace weir::policy {

namespace {

constexpr std::string_view kBlanks = " \t\r\n";
// No limit needs a longer text. Messages quote no more than this.
constexpr std::size_t kMaxTextLength = 1000;

// ---- Splitting a text into words

class LimitTextReader {
 public:
  LimitTextReader(std::string_view text, SourcePosition place) : text_(text), place_(place) {
    skip_blanks();
  }

  bool at_end() const { return at_ == text_.size(); }
  SourcePosition place() const { return place_.moved(at_); }

  // The next word, up to a blank; a slash is a word of its own.
  Word next() {
    const std::size_t start = at_;
    if (text_[at_] == '/') {
      ++at_;
    } else {
      at_ = std::min(text_.find_first_of(kBlanks, at_), text_.size());
      at_ = std::min(text_.substr(0, at_).find('/', start), at_);
    }
    Word word{std::string{text_.substr(start, at_ - start)}, place_.moved(start)};
    skip_blanks();
    return word;
  }

  // The rest of the current word, slashes included: the name of a zone has them.
  Word next_with_slashes() {
    const std::size_t start = at_;
    at_ = std::min(text_.find_first_of(kBlanks, at_), text_.size());
    Word word{std::string{text_.substr(start, at_ - start)}, place_.moved(start)};
    skip_blanks();
    return word;
  }

  bool next_is(std::string_view expected) {
    LimitTextReader ahead = *this;
    if (at_end() || ahead.next().text != expected) return false;
    *this = ahead;
    return true;
  }

 private:
  void skip_blanks() { at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size()); }

  std::string_view text_;
  SourcePosition place_;
  std::size_t at_ = 0;
};

using Field = std::optional<Word> LimitWords::*;

// A keyword without a value, or with one.
struct Keyword {
  std::string_view name;
  Field field;
  std::string_view value;  // name of the value in messages; empty: the keyword has none
};

constexpr std::array<Keyword, 12> kKeywords{{
    {"burst", &LimitWords::burst, "a number of permits, as in \"burst 20\""},
    {"window", &LimitWords::window, ""},
    {"sliding", &LimitWords::sliding, ""},
    {"queue", &LimitWords::queue, "how many may wait, as in \"queue 50\""},
    {"delay", &LimitWords::delay, "how many do not wait, as in \"delay 3\""},
    {"nodelay", &LimitWords::nodelay, ""},
    {"smooth", &LimitWords::smooth, ""},
    {"warmup", &LimitWords::warmup, "a time, as in \"warmup 10s\""},
    {"in", &LimitWords::zone, "a time zone, as in \"in Europe/Berlin\""},
    {"from", &LimitWords::from_day, "\"day\" and its number, as in \"from day 15\""},
    {"concurrent", &LimitWords::concurrent, ""},
    {"lease", &LimitWords::lease, "a time, as in \"lease 30s\""},
}};

std::optional<Problem> read_keyword(LimitTextReader& reader, LimitWords& words) {
  const Word word = reader.next();
  const auto found = std::ranges::find(kKeywords, word.text, &Keyword::name);
  if (found == kKeywords.end()) {
    std::array<std::string_view, kKeywords.size() + 1> names{"exact"};
    std::ranges::transform(kKeywords, names.begin() + 1, &Keyword::name);
    return Problem{word.place, fmt::format("{} means nothing here{}", in_quotes(word.text),
                                           did_you_mean(word.text, names))};
  }
  std::optional<Word>& value = words.*found->field;
  if (value) return Problem{word.place, fmt::format("\"{}\" is given twice", word.text)};
  value = word;
  if (word.text == "window" && reader.next_is("from")) {
    if (!reader.next_is("first")) {
      return Problem{reader.place(), "write \"window from first\", or \"window\" alone"};
    }
    value->text = "from first";
  }
  if (word.text == "sliding" && reader.next_is("exact")) value->text = "exact";
  if (found->value.empty()) return std::nullopt;

  const bool day_follows = word.text != "from" || reader.next_is("day");
  if (!day_follows || reader.at_end()) {
    return Problem{reader.place(), fmt::format("after \"{}\" comes {}", word.text, found->value)};
  }
  value = word.text == "in" ? reader.next_with_slashes() : reader.next();
  return std::nullopt;
}

bool is_period(const Word& word) { return calendar_unit(word.text) || parse_period(word); }

// For "/s" and "per 90s" without a number before them.
Problem no_amount(LimitTextReader& reader, SourcePosition place) {
  const Word period = reader.at_end() ? Word{"s", place} : reader.next();
  return {place, fmt::format("how many? write 10/{}", is_period(period) ? period.text : "s")};
}

// The amount for an example in a message: as written if it is a number, else a default.
std::string_view number_to_show(std::string_view amount) {
  const bool is_number = amount[0] >= '0' && amount[0] <= '9';
  return is_number && amount.size() <= 20 ? amount : "100";
}

std::optional<Problem> read_rate(LimitTextReader& reader, LimitWords& words) {
  if (reader.at_end()) {
    return Problem{words.place, "a limit is missing: write one like 100/s, 5/min or 1000/day"};
  }
  words.amount = reader.next();
  if (words.amount->text == "/" || words.amount->text == "per") {
    return no_amount(reader, words.amount->place);
  }
  if (reader.next_is("concurrent")) {
    words.concurrent = Word{"concurrent", words.amount->place};
    return std::nullopt;
  }
  const bool has_period = reader.next_is("/") || reader.next_is("per");
  if (!has_period || reader.at_end()) {
    constexpr std::array<std::string_view, 2> meant{"concurrent", "per"};
    return Problem{reader.place(),
                   fmt::format("a period is missing: write {0}/s, {0}/min, {0} per 90s or {0} "
                               "concurrent{1}",
                               number_to_show(words.amount->text),
                               reader.at_end() ? "" : did_you_mean(reader.next().text, meant))};
  }
  words.per = reader.next();
  return std::nullopt;
}

std::optional<Problem> check_length(std::string_view text, SourcePosition place) {
  if (text.size() <= kMaxTextLength) return std::nullopt;
  return Problem{place, fmt::format("a limit of {} characters is too long (at most {})",
                                    text.size(), kMaxTextLength)};
}

// ---- Building a limit from words

}  // namespace

std::string explain(core::Flaw flaw) {
  switch (flaw) {
    case core::Flaw::rate_not_positive:
      return "a rate must be above zero";
    case core::Flaw::rate_too_high:
      return "this rate is too high: at most 10^12 permits a second (10^9 for smooth and warmup)";
    case core::Flaw::rate_too_low:
      return "this rate is too low: one permit takes over 73 years";
    case core::Flaw::period_not_positive:
      return "a period must be above zero";
    case core::Flaw::period_too_long:
      return "a period of more than 73 years is too long";
    case core::Flaw::too_many_decimals:
      return "a rate has at most nine decimals";
    case core::Flaw::not_whole:
      return "this counts whole permits: write 1/2s rather than 0.5/s";
    case core::Flaw::capacity_too_small:
      return "a limit must admit at least 1";
    case core::Flaw::capacity_too_large:
      return "this is more than the algorithm can count: write a smaller number";
    case core::Flaw::warmup_too_long:
      return "a warm-up of more than 4h is too long";
    case core::Flaw::nginx_period:
      return "like: nginx knows only /s and /min";
  }
  return {};
}

namespace {

template <typename L>
Result<core::Limit, Problem> checked(const Result<L, core::Flaw>& made, SourcePosition place) {
  if (!made) return Problem{place, explain(made.error())};
  return core::Limit{*made};
}

// A word that selects the algorithm. A limit has at most one.
struct AlgorithmWord {
  Field field;
  std::string_view name;
  std::string_view takes;  // the words that may accompany it, as text for messages
};

constexpr std::array<AlgorithmWord, 8> kAlgorithms{{
    {&LimitWords::burst, "burst", ""},
    {&LimitWords::window, "window", ""},
    {&LimitWords::sliding, "sliding", ""},
    {&LimitWords::queue, "queue", "delay nodelay like"},
    {&LimitWords::smooth, "smooth", ""},
    {&LimitWords::warmup, "warmup", ""},
    {&LimitWords::concurrent, "concurrent", "lease"},
    {&LimitWords::like, "like", "queue delay nodelay"},
}};

// Conflicting words are reported at the second one.
std::optional<Problem> check_algorithm(const LimitWords& words) {
  const AlgorithmWord* chosen = nullptr;
  for (const AlgorithmWord& candidate : kAlgorithms) {
    const auto& word = words.*candidate.field;
    if (!word) continue;
    const bool together =
        chosen == nullptr || chosen->takes.find(candidate.name) != std::string_view::npos;
    if (!together) {
      return Problem{word->place, fmt::format("\"{}\" and \"{}\" are two algorithms: choose one",
                                              chosen->name, candidate.name)};
    }
    if (chosen == nullptr) chosen = &candidate;
  }
  const auto needs = [&](const std::optional<Word>& word, const std::optional<Word>& other,
                         std::string_view name, std::string_view needed) -> std::optional<Problem> {
    if (!word || other) return std::nullopt;
    return Problem{word->place, fmt::format("\"{}\" goes with \"{}\"", name, needed)};
  };
  if (auto problem = needs(words.delay, words.queue, "delay", "queue")) return problem;
  if (auto problem = needs(words.nodelay, words.queue, "nodelay", "queue")) return problem;
  if (auto problem = needs(words.lease, words.concurrent, "lease", "concurrent")) return problem;
  if (words.delay && words.nodelay) {
    return Problem{words.nodelay->place, "\"delay\" and \"nodelay\" contradict each other"};
  }
  return std::nullopt;
}

Result<core::Limit, Problem> build_concurrent(const LimitWords& words) {
  const auto count = parse_count(*words.amount, "the number of permits held at a time");
  if (!count) return count.error();
  core::Concurrency defaults;
  Nanos lease = defaults.hold_time;
  if (words.lease) {
    const auto given = parse_duration(words.lease->text, words.lease->place);
    if (!given) return given.error();
    if (*given <= Nanos{0}) return Problem{words.lease->place, "a lease must be above zero"};
    lease = *given;
  }
  if (*count > core::kMaxConcurrent) {
    return Problem{words.amount->place,
                   fmt::format("at most {} can be held at a time", core::kMaxConcurrent)};
  }
  return checked(core::Concurrency::make(*count, lease), words.amount->place);
}

// A duration of about the unit's length, for suggestions.
std::string_view fixed_length(CalendarUnit unit) {
  switch (unit) {
    case CalendarUnit::day:
      return "24h";
    case CalendarUnit::week:
      return "168h";
    case CalendarUnit::month:
      return "720h";
    case CalendarUnit::year:
      return "8760h";
  }
  return {};
}

std::optional<Problem> check_calendar(const LimitWords& words, CalendarUnit unit) {
  for (const AlgorithmWord& other : kAlgorithms) {
    if (const auto& word = words.*other.field) {
      return Problem{word->place,
                     fmt::format("a calendar quota has no \"{0}\": for \"{0}\" give a fixed time, "
                                 "as in \"{1} per {2}\"",
                                 other.name, words.amount->text, fixed_length(unit))};
    }
  }
  const bool has_anchor = unit == CalendarUnit::month || unit == CalendarUnit::year;
  if (words.from_day && !has_anchor) {
    return Problem{words.from_day->place, "\"from day\" goes with /month and /year"};
  }
  return std::nullopt;
}

Result<core::Limit, Problem> build_calendar(const LimitWords& words, CalendarUnit unit) {
  if (auto problem = check_calendar(words, unit)) return *problem;
  const auto count = parse_count(*words.amount, "a quota");
  if (!count) return count.error();
  Permits anchor = 1;
  if (words.from_day) {
    const auto day = parse_count(*words.from_day, "the day");
    if (!day) return day.error();
    if (*day < 1 || *day > 31) return Problem{words.from_day->place, "a day is from 1 to 31"};
    anchor = *day;
  }
  const std::string zone = words.zone ? words.zone->text : "UTC";
  auto calendar = ZoneCalendar::make(unit, zone, static_cast<int>(anchor));
  if (!calendar) return Problem{words.zone ? words.zone->place : words.place, calendar.error()};
  return checked(core::CalendarWindow::make(*count, *calendar), words.amount->place);
}

Result<core::Limit, Problem> build_queue(const LimitWords& words, const core::Rate& rate) {
  Permits places = 0;
  if (words.queue) {
    const auto count = parse_count(*words.queue, "a queue's length");
    if (!count) return count.error();
    places = *count;
  }
  Permits undelayed = words.nodelay ? places : 0;
  if (words.delay) {
    const auto count = parse_count(*words.delay, "\"delay\"");
    if (!count) return count.error();
    undelayed = *count;
  }
  if (!words.like) {
    return checked(core::Bucket::make_queue(rate, places, undelayed), words.amount->place);
  }
  if (words.like->text != "nginx") {
    return Problem{words.like->place, fmt::format("{} is not known here: the only one is "
                                                  "\"like: nginx\"",
                                                  in_quotes(words.like->text))};
  }
  return checked(core::NginxQueue::make(rate, places, undelayed), words.amount->place);
}

Result<core::Limit, Problem> build_bucket(const LimitWords& words, const core::Rate& rate) {
  Permits burst = std::max<Permits>(rate.floor(), 1);
  if (words.burst) {
    const auto count = parse_count(*words.burst, "a burst");
    if (!count) return count.error();
    if (*count < 1) return Problem{words.burst->place, "a burst must be at least 1"};
    burst = *count;
  }
  return checked(core::Bucket::make(rate, burst),
                 words.burst ? words.burst->place : words.amount->place);
}

Result<core::Limit, Problem> build_exact(const LimitWords& words, const core::Rate& rate) {
  if (rate.floor() > core::kMaxExact) {
    return Problem{words.amount->place,
                   fmt::format("\"sliding exact\" remembers every call, {} of them at most: write "
                               "\"sliding\" for more",
                               core::kMaxExact)};
  }
  return checked(core::SlidingLog::make(rate), words.amount->place);
}

Result<core::Limit, Problem> build_sliding(const LimitWords& words, const core::Rate& rate) {
  if (rate.floor() > core::kMaxSliding) {
    return Problem{words.amount->place,
                   fmt::format("\"sliding\" counts up to {0}: write \"{1}/{2} window\", or "
                               "\"{1}/{2}\" for a bucket",
                               core::kMaxSliding, words.amount->text, words.per->text)};
  }
  return checked(core::SlidingCounter::make(rate), words.amount->place);
}

// Suggests the corrected rate for a known misspelling of a unit.
std::optional<Problem> better_unit(const LimitWords& words) {
  const std::string& amount = words.amount->text;
  const std::string& unit = words.per->text;
  if (unit == "m") {
    return Problem{words.per->place, fmt::format("\"m\" could be minutes or months: write "
                                                 "\"{0}/min\" or \"{0}/month\"",
                                                 amount)};
  }
  const std::string_view meant = unit_meant_by(unit);
  if (meant.empty()) return std::nullopt;
  return Problem{words.per->place,
                 fmt::format("unknown unit \"{}\": did you mean \"{}/{}\"?", unit, amount, meant)};
}

Result<core::Limit, Problem> build_rated(const LimitWords& words) {
  auto rate = parse_amount(*words.amount);
  if (!rate) return rate.error();
  if (words.zone || words.from_day) {
    const Word& word = words.zone ? *words.zone : *words.from_day;
    return Problem{word.place,
                   "a time zone or day goes with a calendar quota: /day, /week, "
                   "/month or /year"};
  }
  const auto period = parse_period(*words.per);
  if (!period) return better_unit(words).value_or(period.error());
  if (*period <= Nanos{0}) return Problem{words.per->place, "a period must be above zero"};
  rate->period = *period;

  const SourcePosition place = words.amount->place;
  if (words.queue || words.like) return build_queue(words, *rate);
  if (words.window)
    return checked(core::Window::make(*rate, words.window->text == "from first"), place);
  if (words.sliding && words.sliding->text == "exact") return build_exact(words, *rate);
  if (words.sliding) return build_sliding(words, *rate);
  if (words.smooth) return checked(core::Smooth::make(*rate), place);
  if (!words.warmup) return build_bucket(words, *rate);
  const auto warmup = parse_duration(words.warmup->text, words.warmup->place);
  if (!warmup) return warmup.error();
  return checked(core::Smooth::make_warming(*rate, *warmup), words.warmup->place);
}

// ---- Printing

std::string amount_text(const core::Rate& rate) {
  if (rate.scale == 1) return fmt::format("{}", rate.count);
  std::string digits = fmt::format("{}", rate.count % rate.scale + rate.scale).substr(1);
  while (digits.ends_with('0')) digits.pop_back();
  return fmt::format("{}.{}", rate.count / rate.scale, digits);
}

std::string rate_text(const core::Rate& rate) {
  const std::string period = to_text(rate.period);
  const bool one = period == "1s" || period == "1min" || period == "1h";
  return fmt::format("{}/{}", amount_text(rate), one ? period.substr(1) : period);
}

std::string window_text(Permits count, Nanos period) {
  return rate_text({.count = count, .scale = 1, .period = period});
}

std::string queue_text(const core::Rate& rate, Permits places, Permits undelayed) {
  std::string text = fmt::format("{} queue {}", rate_text(rate), places);
  if (undelayed > 0 && undelayed >= places) return text + " nodelay";
  if (undelayed > 0) text += fmt::format(" delay {}", undelayed);
  return text;
}

struct LimitPrinter {
  std::string operator()(const core::Bucket& l) const {
    if (l.queue) return queue_text(l.rate, l.capacity - 1, l.at_once - 1);
    if (l.capacity == std::max<Permits>(l.rate.floor(), 1)) return rate_text(l.rate);
    return fmt::format("{} burst {}", rate_text(l.rate), l.capacity);
  }
  std::string operator()(const core::NginxQueue& l) const {
    return queue_text(l.rate, l.places, l.undelayed);
  }
  std::string operator()(const core::Smooth& l) const {
    if (!l.warms_up()) return rate_text(l.rate) + " smooth";
    return fmt::format("{} warmup {}", rate_text(l.rate), to_text(l.warmup));
  }
  std::string operator()(const core::Window& l) const {
    return window_text(l.count, l.period) + (l.from_first ? " window from first" : " window");
  }
  std::string operator()(const core::SlidingCounter& l) const {
    return window_text(l.count, l.period) + " sliding";
  }
  std::string operator()(const core::SlidingLog& l) const {
    return window_text(l.count, l.period) + " sliding exact";
  }
  std::string operator()(const core::CalendarWindow& l) const {
    const auto* calendar = dynamic_cast<const ZoneCalendar*>(l.calendar.get());
    if (calendar == nullptr) return fmt::format("{} per calendar period", l.count);
    std::string text = fmt::format("{}/{}", l.count, unit_name(calendar->unit()));
    if (calendar->zone() != "UTC") text += " in " + calendar->zone();
    if (calendar->anchor() != 1) text += fmt::format(" from day {}", calendar->anchor());
    return text;
  }
  std::string operator()(const core::Concurrency& l) const {
    if (l.hold_time == core::Concurrency{}.hold_time) return fmt::format("{} concurrent", l.count);
    return fmt::format("{} concurrent lease {}", l.count, to_text(l.hold_time));
  }
  // No text form: this limit exists in CL.THROTTLE only.
  std::string operator()(const core::RedisCell& l) const {
    return fmt::format("one every {} burst {} (CL.THROTTLE)", to_text(l.price), l.capacity);
  }
};

}  // namespace

Result<LimitWords, Problem> split_rate(std::string_view text, SourcePosition place) {
  if (auto problem = check_length(text, place)) return *problem;
  LimitWords words{.place = place};
  LimitTextReader reader(text, place);
  if (auto problem = read_rate(reader, words)) return *problem;
  if (!reader.at_end()) {
    return Problem{reader.place(), "only a rate goes here: the rest has fields of its own"};
  }
  return words;
}

Result<LimitWords, Problem> split_limit(std::string_view text, SourcePosition place) {
  if (auto problem = check_length(text, place)) return *problem;
  LimitWords words{.place = place};
  LimitTextReader reader(text, place);
  if (auto problem = read_rate(reader, words)) return *problem;
  while (!reader.at_end()) {
    if (auto problem = read_keyword(reader, words)) return *problem;
  }
  return words;
}

Result<core::Limit, Problem> build_limit(const LimitWords& words) {
  if (!words.amount) {
    return Problem{words.place, "a limit is missing: write one like 100/s, 5/min or 1000/day"};
  }
  if (auto problem = check_algorithm(words)) return *problem;
  if (words.concurrent) return build_concurrent(words);
  if (const auto unit = calendar_unit(words.per->text)) return build_calendar(words, *unit);
  return build_rated(words);
}

Result<core::Limit, Problem> parse_limit(std::string_view text, SourcePosition place) {
  const auto words = split_limit(text, place);
  if (!words) return words.error();
  return build_limit(*words);
}

std::string to_text(const core::Limit& limit) { return std::visit(LimitPrinter{}, limit); }

bool same_algorithm(const core::Limit& a, const core::Limit& b) {
  if (a.index() != b.index()) return false;
  const auto* window = std::get_if<core::Window>(&a);
  return window == nullptr || window->from_first == std::get<core::Window>(b).from_first;
}

}  // namespace weir::policy
