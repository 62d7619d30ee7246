#include "cli/top/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/top/text.h"

namespace weir::cli::top {

namespace {

enum class Ink { plain, bold, dim, green, red };

constexpr std::string_view kInks[] = {"", "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[31m"};

// One line of the screen, never wider than `columns`. Escapes all text that is added.
class Line {
 public:
  Line(std::size_t columns, const Style& style) : max_columns_(columns), style_(style) {}

  Line& add(std::string_view text, Ink ink = Ink::plain) { return add_up_to(left(), text, ink); }
  // Adds a text of exactly `columns`, padded with blanks.
  Line& cell(std::size_t columns, std::string_view text, Ink ink = Ink::plain) {
    const std::size_t end = std::min(max_columns_, used_ + columns);
    add_up_to(end - used_, text, ink);
    return fill_to(end);
  }
  Line& right_cell(std::size_t columns, std::string_view text) {
    const std::size_t width = display_text(text, columns, style_.utf8).columns;
    return fill_to(used_ + columns - width).add(text);
  }
  Line& fill_to(std::size_t column) {
    const std::size_t blanks = std::min(column, max_columns_) - std::min(used_, column);
    text_.append(blanks, ' ');
    used_ += blanks;
    return *this;
  }
  Line& bar(std::size_t cells, Ink ink) {
    const std::string_view plain = ink == Ink::red ? "░" : "█";
    const std::string_view block = !style_.utf8    ? (ink == Ink::red ? "-" : "#")
                                   : style_.colour ? "█"
                                                   : plain;
    std::string blocks;
    for (std::size_t i = 0; i < cells; ++i) blocks += block;
    return add(blocks, ink);
  }
  std::size_t left() const { return max_columns_ - used_; }

  std::string finish() {
    while (text_.ends_with(' ')) text_.pop_back();
    return std::move(text_);
  }

 private:
  Line& add_up_to(std::size_t columns, std::string_view text, Ink ink) {
    const DisplayText harmless = display_text(text, std::min(columns, left()), style_.utf8);
    const bool coloured = style_.colour && ink != Ink::plain;
    if (coloured) text_ += kInks[static_cast<std::size_t>(ink)];
    text_ += harmless.text;
    if (coloured) text_ += "\x1b[0m";
    used_ += harmless.columns;
    return *this;
  }

  const std::size_t max_columns_;
  const Style& style_;
  std::string text_;
  std::size_t used_ = 0;
};

// ---- Numbers

std::string compact(double number) {
  if (number < 10) return fmt::format("{:.1f}", number);
  if (number < 100'000) return fmt::format("{:.0f}", number);
  if (number < 1e7) return fmt::format("{:.0f}k", number / 1e3);
  if (number < 1e10) return fmt::format("{:.0f}M", number / 1e6);
  return fmt::format("{:.0f}G", number / 1e9);
}

std::string compact_count(std::uint64_t count) {
  return count < 100'000 ? std::to_string(count) : compact(static_cast<double>(count));
}

std::string duration(std::int64_t seconds) {
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} min", seconds / 60);
  if (seconds < 86'400) return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
  return fmt::format("{} d {} h", seconds / 86'400, seconds / 3600 % 24);
}

std::size_t cells_of(double part, double whole, std::size_t cells) {
  if (part <= 0 || whole <= 0) return 0;
  const auto rounded =
      static_cast<std::size_t>(std::lround(part / whole * static_cast<double>(cells)));
  return std::clamp<std::size_t>(rounded, 1, cells);
}

// ---- Layout

constexpr std::size_t kHeader = 2;
constexpr std::size_t kWideEnough = 76;  // columns for two lists of keys side by side
constexpr std::size_t kTallEnough = 16;  // rows for empty lines between sections

// The number of rows of each section.
struct ScreenLayout {
  bool side_by_side = false;
  std::size_t gap = 0;  // empty lines before a section
  std::size_t policies = 0;
  std::size_t allowed = 0;
  std::size_t refused = 0;
};

struct DesiredRows {
  std::size_t policies = 0;
  std::size_t allowed = 0;
  std::size_t refused = 0;
};

// An empty list takes one row, which says so.
DesiredRows desired_rows(const TopView& view) {
  DesiredRows want{
      .policies = std::max<std::size_t>(view.rows.size(), 1), .allowed = 1, .refused = 1};
  if (view.rows.empty()) return want;
  const PolicyActivity& policy = view.rows[selected_row(view)].policy;
  want.allowed = std::max(want.allowed, policy.top_allowed.size());
  want.refused = std::max(want.refused, policy.top_refused.size());
  return want;
}

std::size_t keys_height(bool side_by_side, std::size_t allowed, std::size_t refused) {
  return side_by_side ? 1 + std::max(allowed, refused) : 2 + allowed + refused;
}

// The policies get half of the body, and the rows that the keys do not need.
ScreenLayout layout(const TopView& view, Size size, const Style& style) {
  const DesiredRows want = desired_rows(view);
  ScreenLayout out;
  out.side_by_side = size.columns >= kWideEnough;
  out.gap = size.rows >= kTallEnough ? 1 : 0;
  const std::size_t fixed = kHeader + 2 * out.gap + 1 + (style.is_live ? 1 : 0);
  const std::size_t body = size.rows > fixed ? size.rows - fixed : 0;
  const std::size_t keys = keys_height(out.side_by_side, want.allowed, want.refused);
  const std::size_t spare = body > keys ? body - keys : 0;
  const std::size_t half = std::max<std::size_t>(body / 2, 2) - 1;
  out.policies = std::min(want.policies, std::max(half, spare));
  const std::size_t rest = body > out.policies ? body - out.policies : 0;
  if (out.side_by_side) {
    out.allowed = out.refused = rest > 0 ? rest - 1 : 0;
  } else {
    const std::size_t rows = rest > 2 ? rest - 2 : 0;
    out.refused = std::min(want.refused, std::max(rows / 2, rows - std::min(rows, want.allowed)));
    out.allowed = rows - out.refused;
  }
  out.allowed = std::min(out.allowed, want.allowed);
  out.refused = std::min(out.refused, want.refused);
  return out;
}

// ---- Sections

class Drawing {
 public:
  Drawing(const TopView& view, Size size, const Style& style)
      : view_(view), size_(size), style_(style), layout_(layout(view, size, style)) {}

  std::vector<std::string> lines() {
    header();
    policies();
    keys();
    footer();
    if (lines_.size() > size_.rows) lines_.resize(size_.rows);
    return std::move(lines_);
  }

 private:
  Line line() const { return {size_.columns, style_}; }
  void put(Line& line) { lines_.push_back(line.finish()); }
  void gap() { lines_.resize(lines_.size() + layout_.gap); }

  void header() {
    Line title = line();
    title.add("weir top", Ink::bold).add("  ").add(view_.address);
    if (view_.generation > 0) {
      title.add(fmt::format("  up {}  generation {}", duration(view_.uptime), view_.generation));
    }
    put(title);
    Line totals = line();
    if (!view_.error.empty()) {
      totals.add(view_.error, Ink::red);
    } else {
      if (view_.paused) totals.add("paused  ", Ink::bold);
      totals.add(summary());
    }
    put(totals);
  }

  std::string summary() const {
    double allowed = 0;
    double refused = 0;
    for (const PolicyRates& row : view_.rows) {
      allowed += row.allowed;
      refused += row.refused;
    }
    const double all = allowed + refused;
    return fmt::format("{}/s, {:.1f} % refused  keys of the last {} s", compact(all),
                       all > 0 ? 100 * refused / all : 0, view_.seconds);
  }

  void policies() {
    gap();
    std::size_t width = 6;
    for (const PolicyRates& row : view_.rows) {
      width =
          std::max(width, display_text(name_of(row.policy), size_.columns, style_.utf8).columns);
    }
    width = std::min(width, size_.columns / 3);
    Line heading = line();
    heading.add("  ").cell(width, "policy", Ink::dim);
    heading.cell(11, "  allowed/s", Ink::dim).cell(11, "  refused/s", Ink::dim);
    put(heading);
    double max_rate = 0;
    for (const PolicyRates& row : view_.rows)
      max_rate = std::max(max_rate, row.allowed + row.refused);
    const std::size_t selected = selected_row(view_);
    const std::size_t first = selected < layout_.policies ? 0 : selected - layout_.policies + 1;
    for (std::size_t i = first; i < view_.rows.size() && i < first + layout_.policies; ++i) {
      policy(view_.rows[i], i == selected, width, max_rate);
    }
    if (view_.rows.empty()) put(line().add("  no policy yet", Ink::dim));
  }

  void policy(const PolicyRates& row, bool selected, std::size_t width, double max_rate) {
    Line text = line();
    text.add(selected ? "> " : "  ");
    text.cell(width, name_of(row.policy), selected ? Ink::bold : Ink::plain);
    text.right_cell(11, compact(row.allowed)).right_cell(11, compact(row.refused)).add("  ");
    const std::size_t cells = cells_of(row.allowed + row.refused, max_rate, text.left());
    std::size_t refused = cells_of(row.refused, row.allowed + row.refused, cells);
    if (row.allowed > 0 && cells > 1) refused = std::min(refused, cells - 1);
    text.bar(cells - refused, Ink::green).bar(refused, Ink::red);
    put(text);
  }

  void keys() {
    if (view_.rows.empty()) return;
    const PolicyActivity& of = view_.rows[selected_row(view_)].policy;
    if (layout_.gap > 0) put(line().add(rules_of(of), Ink::dim));
    const std::string allowed = fmt::format("allowed most: {}", name_of(of));
    const std::string refused = fmt::format("refused most: {}", name_of(of));
    if (!layout_.side_by_side) {
      put(line().add(allowed, Ink::dim));
      list(of.top_allowed, layout_.allowed, Ink::green);
      put(line().add(refused, Ink::dim));
      list(of.top_refused, layout_.refused, Ink::red);
      return;
    }
    const std::size_t half = size_.columns / 2;
    put(line().cell(half - 1, allowed, Ink::dim).add(" ").add(refused, Ink::dim));
    for (std::size_t i = 0; i < std::max(layout_.allowed, layout_.refused); ++i) {
      Line row = line();
      if (i < layout_.allowed) key(row, of.top_allowed, i, half - 2, Ink::green);
      row.fill_to(half);
      if (i < layout_.refused) key(row, of.top_refused, i, row.left(), Ink::red);
      put(row);
    }
  }

  // The limits and orders of a policy, in one line; it takes the place of an empty line.
  static std::string rules_of(const PolicyActivity& policy) {
    std::string text = fmt::format("{}", fmt::join(policy.limits, "; "));
    for (const std::string& order : policy.orders) text += "; " + order;
    return text.empty() ? text : "  " + text;
  }

  void list(const std::vector<HotKey>& keys, std::size_t rows, Ink ink) {
    for (std::size_t i = 0; i < rows; ++i) {
      Line row = line();
      key(row, keys, i, size_.columns, ink);
      put(row);
    }
  }

  // Adds a key, its count, the error of the count, and a bar, in `columns`.
  void key(Line& row, const std::vector<HotKey>& keys, std::size_t i, std::size_t columns,
           Ink ink) {
    if (keys.empty()) {
      row.cell(columns, "  none", Ink::dim);
      return;
    }
    const HotKey& key = keys[i];
    constexpr std::size_t numbers = 15;
    const std::size_t bar = columns / 5;
    const std::size_t text = columns > numbers + bar + 2 ? columns - numbers - bar - 2 : 0;
    row.add("  ").cell(text, key.text);
    row.right_cell(7, " " + compact_count(key.count));
    row.cell(8, fmt::format(" {}{}", style_.utf8 ? "±" : "+-", compact_count(key.error)), Ink::dim);
    row.bar(cells_of(static_cast<double>(key.count), static_cast<double>(keys[0].count), bar), ink);
  }

  void footer() {
    if (!style_.is_live) return;
    lines_.resize(size_.rows > 0 ? size_.rows - 1 : 0);
    put(line().add(style_.utf8 ? "q quit  ↑↓ policy  p pause" : "q quit  arrows policy  p pause",
                   Ink::dim));
  }

  const TopView& view_;
  const Size size_;
  const Style& style_;
  const ScreenLayout layout_;
  std::vector<std::string> lines_;
};

}  // namespace

std::string_view name_of(const PolicyActivity& policy) {
  return policy.name.empty() ? std::string_view{"(ad hoc)"} : std::string_view{policy.name};
}

std::size_t selected_row(const TopView& view) {
  const auto is_it = [&](const PolicyRates& row) { return name_of(row.policy) == view.selected; };
  const auto found = std::ranges::find_if(view.rows, is_it);
  return found == view.rows.end() ? 0 : static_cast<std::size_t>(found - view.rows.begin());
}

std::size_t rows_for(const TopView& view, std::size_t columns) {
  const DesiredRows want = desired_rows(view);
  const std::size_t keys = keys_height(columns >= kWideEnough, want.allowed, want.refused);
  return std::max(kTallEnough, kHeader + 3 + want.policies + keys);
}

std::vector<std::string> draw(const TopView& view, Size size, const Style& style) {
  return Drawing(view, size, style).lines();
}

}  // namespace weir::cli::top
