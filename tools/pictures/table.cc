#include <string_view>

#include "pictures.h"
#include "plot.h"

namespace weir::pictures {

namespace {

// A drawing, not a measurement: rows as the memory table lays them out, slot by slot.
//   #  in use    -  at rest    .  empty    N  where the new key goes
constexpr double kSlot = 24;
constexpr double kPitch = 28;
constexpr double kLeft = 92;

void draw_slot(Svg& svg, Point corner, char what) {
  svg.box(corner, kSlot, kSlot, ink::axis);
  svg.box({corner.x + 1, corner.y + 1}, kSlot - 2, kSlot - 2, ink::paper);
  const Point inside{corner.x + 3, corner.y + 3};
  if (what == '#') svg.box(inside, kSlot - 6, kSlot - 6, ink::passed);
  if (what == '-') svg.box(inside, kSlot - 6, kSlot - 6, ink::axis, 0.45);
  if (what == 'N') svg.waited({corner.x + kSlot / 2, corner.y + kSlot / 2});
}

void draw_row(Svg& svg, Point corner, std::string_view name, std::string_view slots) {
  svg.text({corner.x - 12, corner.y + 17}, name,
           {.size = 12, .colour = ink::quiet, .anchor = Anchor::end});
  for (const char what : slots) {
    draw_slot(svg, corner, what);
    corner.x += kPitch;
  }
}

// A new key, its two rows, and their captions.
void panel(Svg& svg, double top, std::string_view title, std::string_view first,
           std::string_view second) {
  svg.text({24, top}, title, {.size = 13, .bold = true});
  draw_row(svg, {kLeft, top + 14}, "one row", first);
  draw_row(svg, {kLeft, top + 46}, "the other", second);
}

void remarks(Svg& svg, double top, std::string_view one, std::string_view two,
             std::string_view three) {
  const Font font{.size = 12, .colour = ink::quiet};
  svg.text({536, top + 24}, one, font);
  svg.text({536, top + 42}, two, font);
  svg.text({536, top + 60}, three, font);
}

void draw_fates(Svg& svg, double top) {
  const Font code{.size = 12, .bold = true, .code = true};
  const Font font{.size = 12, .colour = ink::quiet};
  const auto fate = [&](double y, std::string_view word, std::string_view meaning) {
    svg.text({kLeft + 40, y}, word, code);
    svg.text({kLeft + 96, y}, meaning, font);
  };
  svg.waited({kLeft + 20, top - 4});
  fate(top, "share", "new keys share the allowance of one key, in a slot reserved for that");
  svg.refused({kLeft + 20, top + 18});
  fate(top + 22, "deny", "new keys are refused until another key is at rest");
  svg.passed({kLeft + 20, top + 40});
  fate(top + 44, "allow", "new keys pass, and are not counted");
}

void draw_legend(Svg& svg, double y) {
  const auto entry = [&](double x, char what, std::string_view words) {
    draw_slot(svg, {x, y - 17}, what);
    svg.text({x + 32, y}, words, {.size = 12, .colour = ink::quiet});
  };
  entry(24, '#', "in use");
  entry(120, '-', "at rest");
  entry(220, '.', "empty");
  entry(312, 'N', "the new key");
}

}  // namespace

std::string table() {
  Svg svg(800, 510, "Where a new key finds room, and what happens when there is none");
  heading(
      svg, "Where a new key finds room, and what happens when there is none",
      "A key may lie in two rows of fifteen slots. Only empty slots, and those of keys at rest, "
      "are given away.");
  panel(svg, 96, "Room in plenty", "#.-##..N.#-.##.", "##.-#.#.##-.#..");
  remarks(svg, 96, "Fewer than 11 of 15 in use:", "the place it prefers, where it is",
          "found again at first sight.");
  panel(svg, 196, "Getting full", "###########-##-", "##-##N######-##");
  remarks(svg, 196, "The emptier of its two rows, in the", "place of a key at rest: as good as",
          "never seen, so decisions do not change.");
  panel(svg, 296, "No room", "###############", "###############");
  remarks(svg, 296, "A key in use is never dropped, however",
          "many come: a flood of keys cannot buy", "anybody a fresh start.");
  svg.text({24, 396}, "when_full", {.size = 12, .bold = true, .code = true});
  draw_fates(svg, 396);
  draw_legend(svg, 490);
  return svg.finish();
}

}  // namespace weir::pictures
