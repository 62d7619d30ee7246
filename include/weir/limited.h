#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <functional>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "weir/clock.h"
#include "weir/deadline.h"
#include "weir/decision.h"
#include "weir/result.h"
#include "weir/time.h"

namespace weir {
inline namespace v0 {

// Why a guarded call was not made. A plain value.
struct Denial {
  Decision decision;     // of the gate that refused
  std::size_t gate = 0;  // which one, counted from 0 as they were written
};

// What a gate hands out: true if it lets in, and what it has to say.
template <typename P>
concept Pass = std::move_constructible<P> && requires(P& pass) {
  static_cast<bool>(pass);
  { pass.decision() } -> std::convertible_to<Decision>;
};

// A pass that is spent unless it is cancelled, for a turn that may lie ahead.
template <typename P>
concept Booking = Pass<P> && requires(P& pass) {
  { pass.ready_at() } -> std::convertible_to<Instant>;
  pass.cancel();
};

// A gate whose passes come back by themselves: ConcurrencyLimiter.
template <typename G>
concept PermitGate = requires(G& gate) {
  { gate.try_enter() } -> Pass;
};

// A gate whose passes are spent: Limiter, SmoothLimiter.
template <typename G>
concept TokenGate = requires(G& gate) {
  { gate.reserve(Permits{1}, Nanos{0}) } -> Booking;
};

// One that has a limit for each key: KeyedLimiter.
template <typename G, typename Key>
concept KeyedGate = requires(G& gate, const Key& key) {
  { gate.reserve(key, Permits{1}, Nanos{0}) } -> Booking;
};

namespace detail {

// How long a call may still wait.
class Patience {
 public:
  Patience(Nanos most, const Clock& clock)
      : clock_(clock),
        any_(most > Nanos{0}),
        end_(Deadline::at(any_ ? Deadline::after(most).resolve(clock.now()) : Instant{})) {}

  bool any() const { return any_; }
  // (Who has no patience need not know the time.)
  Nanos left() const { return any_ ? end_.left(clock_.now()) : Nanos{0}; }
  Deadline end() const { return Deadline::after(left()); }

 private:
  const Clock& clock_;
  bool any_;
  Deadline end_;
};

// The three kinds of gates, and how each is asked. A gate sees the arguments of the call but only
// looks at them: they are the function's.

template <typename G>
struct ByPermit {
  static constexpr bool kComesBack = true;
  G* gate;

  auto ask(const Patience& patience, const auto&...) const {
    if constexpr (requires { gate->enter(patience.end()); }) {
      // By the gate's own clock, which need not be the call's.
      if (patience.any()) return gate->enter(patience.end());
    }
    return gate->try_enter();
  }
};

template <typename G>
struct ByToken {
  static constexpr bool kComesBack = false;
  G* gate;

  auto ask(const Patience& patience, const auto&...) const {
    return gate->reserve(Permits{1}, patience.left());
  }
};

template <typename G, typename KeyOf>
struct ByKey {
  static constexpr bool kComesBack = false;
  G* gate;
  KeyOf key_of;

  // In one expression, so that what the arguments are converted to for key_of lives as long as the
  // key, which may be a view of it.
  auto ask(const Patience& patience, const auto&... args) const {
    static_assert(KeyedGate<G, std::remove_cvref_t<decltype(key_of(args...))>>,
                  "by(gate, key_of): the gate has no reserve(key, permits, max_wait) for the key "
                  "that key_of returns");
    return gate->reserve(key_of(args...), Permits{1}, patience.left());
  }
};

// What one gate has handed out for one call.
template <typename Gate, typename P>
class Held {
 public:
  // Whether the gate lets in.
  bool ask(const Gate& gate, const Patience& patience, const auto&... args) {
    return static_cast<bool>(pass_.emplace(gate.ask(patience, args...)));
  }
  Decision decision() const { return pass_->decision(); }

  Instant ready_at() const {
    if constexpr (Gate::kComesBack) {
      return Instant::min();
    } else {
      return pass_->ready_at();
    }
  }

  void give_back() {
    if constexpr (!Gate::kComesBack) {
      if (pass_) pass_->cancel();
    }
    pass_.reset();
  }

 private:
  std::optional<P> pass_;
};

// What all gates have handed out for one call. What can be cancelled is, unless it is kept.
template <typename... Helds>
class Passes {
 public:
  Passes() = default;
  Passes(const Passes&) = delete;
  Passes& operator=(const Passes&) = delete;
  ~Passes() {
    if (!kept_) give_back();
  }

  // Asks the gates until one refuses, first those whose permits come back: holding those for a
  // moment costs nothing, while a token spent on a call that then finds no permit would be lost.
  template <typename... Gates>
  std::optional<Denial> collect(const std::tuple<Gates...>& gates, const Patience& patience,
                                const auto&... args) {
    std::optional<Denial> denial;
    const auto one = [&](bool coming_back, std::size_t position, const auto& gate, auto& held) {
      if (gate.kComesBack != coming_back) return true;
      if (held.ask(gate, patience, args...)) return true;
      denial = Denial{.decision = held.decision(), .gate = position};
      return false;
    };
    const auto round = [&]<std::size_t... I>([[maybe_unused]] bool coming_back,
                                             std::index_sequence<I...>) {
      return (one(coming_back, I, std::get<I>(gates), std::get<I>(held_)) && ...);
    };
    constexpr auto all = std::index_sequence_for<Gates...>{};
    static_cast<void>(round(true, all) && round(false, all));
    return denial;
  }

  // When the last of the turns comes.
  Instant ready_at() const {
    return std::apply(
        [](const auto&... held) {
          return std::max({Instant::min(), held.ready_at()...});
        },
        held_);
  }

  void keep() { kept_ = true; }
  void give_back() {
    std::apply([](auto&... held) { (held.give_back(), ...); }, held_);
  }

 private:
  std::tuple<Helds...> held_;
  bool kept_ = false;
};

template <typename Gate, typename... Args>
using HeldOf = Held<Gate, decltype(std::declval<const Gate&>().ask(
                              std::declval<const Patience&>(), std::declval<const Args&>()...))>;

struct NoFallback {};

// What a guarded call answers when the function returns R.
template <typename R, typename Fallback>
struct AnswerTo {
  using type = R;
};
template <typename R>
struct AnswerTo<R, NoFallback> {
  static_assert(!std::is_reference_v<R>,
                "limited(f): a Result holds no reference; let f return a value or a pointer, or "
                "add or_else");
  using type = Result<std::conditional_t<std::is_void_v<R>, std::monostate, R>, Denial>;
};

}  // namespace detail

// A function behind gates, made by `limited`: it is called if all of them let in.
// As thread-safe as the function: the gates are. Copyable and movable where the function is; holds
// its gates and its clock by reference, and they must outlive it.
// Not for limits that must be charged together or not at all: gates are asked in turn, and what one
// has granted is cancelled when another refuses. When others come between, that may waste a permit,
// but it never mints one. Engine decides over several limits at once.
template <typename F, typename Fallback = detail::NoFallback, typename... Gates>
class Limited {
 public:
  explicit Limited(F f, Fallback fallback = {}, std::tuple<Gates...> gates = {},
                   Nanos max_wait = Nanos{0}, const Clock& clock = system_clock())
      : f_(std::move(f)),
        fallback_(std::move(fallback)),
        gates_(std::move(gates)),
        max_wait_(max_wait),
        clock_(&clock) {}

  // Another gate, asked for one permit. Gates whose permits come back are asked before the others,
  // whatever the order they are written in, so that a refusal wastes no token.
  template <typename G>
  requires(PermitGate<G> || TokenGate<G>) auto by(G& gate) && {
    if constexpr (PermitGate<G>) {
      return std::move(*this).with(detail::ByPermit<G>{&gate});
    } else {
      return std::move(*this).with(detail::ByToken<G>{&gate});
    }
  }

  // Another gate, asked for one permit of the key that `key_of` makes of the call's arguments. It
  // gets them as const references; a view that it returns must not point into a copy of its own.
  template <typename G, typename KeyOf>
  auto by(G& gate, KeyOf key_of) && {
    if constexpr (std::is_member_pointer_v<KeyOf>) {
      return std::move(*this).by(gate, std::mem_fn(key_of));
    } else {
      return std::move(*this).with(detail::ByKey<G, KeyOf>{&gate, std::move(key_of)});
    }
  }

  // Callers wait for their turn, `most` in all; without this they do not wait. All gates are asked
  // first, then there is one sleep, until the last turn comes. Permits are held meanwhile. A
  // window, which lends no turns, refuses as it would without this.
  Limited wait_at_most(Nanos most) && {
    max_wait_ = most;
    return std::move(*this);
  }

  // The clock to wait on, which should be that of the gates; system_clock() unless told otherwise.
  Limited on(const Clock& clock) && {
    clock_ = &clock;
    return std::move(*this);
  }

  // What is done instead when a gate refuses, and only then: exceptions of the function pass
  // through. Called with (const Denial&, args...), (args...) or (), whichever it takes; its value
  // becomes that of the call.
  template <typename Other>
  auto or_else(Other fallback) && {
    return Limited<F, Other, Gates...>{std::move(f_), std::move(fallback), std::move(gates_),
                                       max_wait_, *clock_};
  }

  // Calls the function with the arguments as they come, or does not. Returns what the function or
  // the fallback returns; without a fallback Result<R, Denial>, where R is std::monostate for a
  // function that returns nothing. Once the function has been called tokens are spent, and permits
  // come back when it is done, by an exception too.
  template <typename... Args>
  requires std::invocable<F&, Args...>
  auto operator()(Args&&... args) ->
      typename detail::AnswerTo<std::invoke_result_t<F&, Args...>, Fallback>::type {
    return call(*this, std::forward<Args>(args)...);
  }
  template <typename... Args>
  requires std::invocable<const F&, Args...>
  auto operator()(Args&&... args) const ->
      typename detail::AnswerTo<std::invoke_result_t<const F&, Args...>, Fallback>::type {
    return call(*this, std::forward<Args>(args)...);
  }

 private:
  template <typename, typename, typename...>
  friend class Limited;

  template <typename Self, typename... Args>
  using ResultOf = std::invoke_result_t<decltype((std::declval<Self&>().f_)), Args...>;
  template <typename Self, typename... Args>
  using Answer = typename detail::AnswerTo<ResultOf<Self, Args...>, Fallback>::type;

  template <typename Gate>
  auto with(Gate gate) && {
    return Limited<F, Fallback, Gates..., Gate>{
        std::move(f_), std::move(fallback_),
        std::tuple_cat(std::move(gates_), std::tuple<Gate>{std::move(gate)}), max_wait_, *clock_};
  }

  template <typename Self, typename... Args>
  static Answer<Self, Args...> call(Self& self, Args&&... args) {
    const detail::Patience patience{self.max_wait_, *self.clock_};
    detail::Passes<detail::HeldOf<Gates, Args...>...> passes;
    if (const auto denial = passes.collect(self.gates_, patience, args...)) {
      passes.give_back();
      return refused(self, *denial, std::forward<Args>(args)...);
    }
    if (patience.any()) self.clock_->sleep_until(passes.ready_at(), {});
    passes.keep();
    return admitted(self, std::forward<Args>(args)...);
  }

  template <typename Self, typename... Args>
  static Answer<Self, Args...> admitted(Self& self, Args&&... args) {
    constexpr bool is_void = std::is_void_v<ResultOf<Self, Args...>>;
    if constexpr (is_void && std::is_same_v<Fallback, detail::NoFallback>) {
      std::invoke(self.f_, std::forward<Args>(args)...);
      return std::monostate{};
    } else {
      return std::invoke(self.f_, std::forward<Args>(args)...);
    }
  }

  template <typename Self, typename... Args>
  static Answer<Self, Args...> refused(Self& self, const Denial& denial, Args&&... args) {
    if constexpr (std::is_same_v<Fallback, detail::NoFallback>) {
      return denial;
    } else if constexpr (std::is_void_v<Answer<Self, Args...>>) {
      static_cast<void>(fall_back(self, denial, std::forward<Args>(args)...));
    } else {
      return fall_back(self, denial, std::forward<Args>(args)...);
    }
  }

  template <typename Self, typename... Args>
  static decltype(auto) fall_back(Self& self, const Denial& denial, Args&&... args) {
    using Other = decltype((self.fallback_));
    if constexpr (std::is_invocable_v<Other, const Denial&, Args...>) {
      return std::invoke(self.fallback_, denial, std::forward<Args>(args)...);
    } else if constexpr (std::is_invocable_v<Other, Args...>) {
      return std::invoke(self.fallback_, std::forward<Args>(args)...);
    } else {
      static_assert(std::is_invocable_v<Other>,
                    "or_else(fallback): the fallback takes (const weir::Denial&, args...), "
                    "(args...) or ()");
      return std::invoke(self.fallback_);
    }
  }

  F f_;
  Fallback fallback_;
  std::tuple<Gates...> gates_;
  Nanos max_wait_;
  const Clock* clock_;
};

// `f` behind gates, to be written as one chain:
//
//   auto fetch = weir::limited([&](UserId id) { return backend.fetch(id); })
//                    .by(slots)                                         // so many at a time
//                    .by(per_user, [](const UserId& id) { return id.view(); })
//                    .or_else([&](const weir::Denial&, UserId id) { return cache.stale(id); });
//   User user = fetch(id);
template <typename F>
auto limited(F f) {
  return Limited<F>{std::move(f)};
}

}  // namespace v0
}  // namespace weir
