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

// The reason why a guarded function was not called. A plain value.
struct Denial {
  Decision decision;     // of the gate that refused
  std::size_t gate = 0;  // its position in the chain of `by` calls, from 0
};

// The result of asking a gate: true if it admits, with its decision.
template <typename P>
concept Pass = std::move_constructible<P> && requires(P& pass) {
  static_cast<bool>(pass);
  { pass.decision() } -> std::convertible_to<Decision>;
};

// A pass that is spent unless it is cancelled, for a turn that may lie in the future.
template <typename P>
concept Booking = Pass<P> && requires(P& pass) {
  { pass.ready_at() } -> std::convertible_to<Instant>;
  pass.cancel();
};

// A gate whose passes release their permits in the destructor: ConcurrencyLimiter.
template <typename G>
concept PermitGate = requires(G& gate) {
  { gate.try_enter() } -> Pass;
};

// A gate whose passes are spent: Limiter, SmoothLimiter.
template <typename G>
concept TokenGate = requires(G& gate) {
  { gate.reserve(Permits{1}, Nanos{0}) } -> Booking;
};

// A token gate with a limit per key: KeyedLimiter.
template <typename G, typename Key>
concept KeyedGate = requires(G& gate, const Key& key) {
  { gate.reserve(key, Permits{1}, Nanos{0}) } -> Booking;
};

namespace detail {

// The time that a call may still wait, over all of its gates.
class WaitBudget {
 public:
  WaitBudget(Nanos max_wait, const Clock& clock)  // reads the clock only if there is time to wait
      : clock_(clock),
        any_(max_wait > Nanos{0}),
        end_(Deadline::at(any_ ? Deadline::after(max_wait).resolve(clock.now()) : Instant{})) {}

  bool any() const { return any_; }
  Nanos left() const { return any_ ? end_.left(clock_.now()) : Nanos{0}; }
  Deadline end() const { return Deadline::after(left()); }

 private:
  const Clock& clock_;
  bool any_;
  Deadline end_;
};

// Adapters for the three kinds of gates. Arguments of the call are passed as const references: they
// belong to the guarded function.

template <typename G>
struct ByPermit {
  static constexpr bool kIsPermit = true;
  G* gate;

  auto ask(const WaitBudget& budget, const auto&...) const {
    if constexpr (requires { gate->enter(budget.end()); }) {
      // Waits by the gate's own clock, which may be another one than the call's.
      if (budget.any()) return gate->enter(budget.end());
    }
    return gate->try_enter();
  }
};

template <typename G>
struct ByToken {
  static constexpr bool kIsPermit = false;
  G* gate;

  auto ask(const WaitBudget& budget, const auto&...) const {
    return gate->reserve(Permits{1}, budget.left());
  }
};

template <typename G, typename KeyOf>
struct ByKey {
  static constexpr bool kIsPermit = false;
  G* gate;
  KeyOf key_of;

  // A single expression: temporaries made for the parameters of key_of must live as long as the
  // key, which may be a view of them.
  auto ask(const WaitBudget& budget, const auto&... args) const {
    static_assert(KeyedGate<G, std::remove_cvref_t<decltype(key_of(args...))>>,
                  "by(gate, key_of): the gate has no reserve(key, permits, max_wait) for the key "
                  "that key_of returns");
    return gate->reserve(key_of(args...), Permits{1}, budget.left());
  }
};

// The pass of one gate for one call.
template <typename Gate, typename P>
class HeldPass {
 public:
  // Returns whether the gate admits.
  bool ask(const Gate& gate, const WaitBudget& budget, const auto&... args) {
    return static_cast<bool>(pass_.emplace(gate.ask(budget, args...)));
  }
  Decision decision() const { return pass_->decision(); }

  Instant ready_at() const {
    if constexpr (Gate::kIsPermit) {
      return Instant::min();
    } else {
      return pass_->ready_at();
    }
  }

  void give_back() {
    if constexpr (!Gate::kIsPermit) {
      if (pass_) pass_->cancel();
    }
    pass_.reset();
  }

 private:
  std::optional<P> pass_;
};

// The passes of all gates for one call. The destructor gives them back unless they are kept.
template <typename... HeldPasses>
class Passes {
 public:
  Passes() = default;
  Passes(const Passes&) = delete;
  Passes& operator=(const Passes&) = delete;
  ~Passes() {
    if (!kept_) give_back();
  }

  // Asks the gates until one refuses. Permit gates come first: a permit can be released again at no
  // cost, while a token may be lost if a later gate refuses.
  template <typename... Gates>
  std::optional<Denial> collect(const std::tuple<Gates...>& gates, const WaitBudget& budget,
                                const auto&... args) {
    std::optional<Denial> denial;
    const auto ask_gate = [&](bool permits_first, std::size_t position, const auto& gate,
                              auto& held) {
      if (gate.kIsPermit != permits_first) return true;
      if (held.ask(gate, budget, args...)) return true;
      denial = Denial{.decision = held.decision(), .gate = position};
      return false;
    };
    const auto ask_gates = [&]<std::size_t... I>([[maybe_unused]] bool permits_first,
                                                 std::index_sequence<I...>) {
      return (ask_gate(permits_first, I, std::get<I>(gates), std::get<I>(held_)) && ...);
    };
    constexpr auto all = std::index_sequence_for<Gates...>{};
    static_cast<void>(ask_gates(true, all) && ask_gates(false, all));
    return denial;
  }

  // The latest of the turns.
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
  std::tuple<HeldPasses...> held_;
  bool kept_ = false;
};

template <typename Gate, typename... Args>
using HeldPassOf =
    HeldPass<Gate, decltype(std::declval<const Gate&>().ask(std::declval<const WaitBudget&>(),
                                                            std::declval<const Args&>()...))>;

struct NoFallback {};

// The return type of a guarded call whose function returns R.
template <typename R, typename Fallback>
struct CallResult {
  using type = R;
};
template <typename R>
struct CallResult<R, NoFallback> {
  static_assert(!std::is_reference_v<R>,
                "limited(f): a Result holds no reference; let f return a value or a pointer, or "
                "add or_else");
  using type = Result<std::conditional_t<std::is_void_v<R>, std::monostate, R>, Denial>;
};

}  // namespace detail

// A function behind gates, made by `limited`. The function is called if all gates admit.
// As thread-safe as the function itself; gates are thread-safe. Copyable and movable if the
// function is. Holds its gates and its clock by reference: they must outlive it.
// Not for limits that must be charged atomically (use Engine). Gates are asked one after the other,
// and grants are cancelled when a later gate refuses. With concurrent callers, a cancelled permit
// may be lost, but none is ever gained.
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

  // Adds a gate, which is asked for one permit. Permit gates are asked before token gates, in
  // whatever order they are written, so that a refusal wastes no token.
  template <typename G>
  requires(PermitGate<G> || TokenGate<G>) auto by(G& gate) && {
    if constexpr (PermitGate<G>) {
      return std::move(*this).with(detail::ByPermit<G>{&gate});
    } else {
      return std::move(*this).with(detail::ByToken<G>{&gate});
    }
  }

  // Adds a keyed gate, which is asked for one permit of the key that `key_of` returns. `key_of`
  // gets the call's arguments as const references; a view that it returns must not refer to its
  // locals.
  template <typename G, typename KeyOf>
  auto by(G& gate, KeyOf key_of) && {
    if constexpr (std::is_member_pointer_v<KeyOf>) {
      return std::move(*this).by(gate, std::mem_fn(key_of));
    } else {
      return std::move(*this).with(detail::ByKey<G, KeyOf>{&gate, std::move(key_of)});
    }
  }

  // Lets callers wait for their turn, `max_wait` in total; the default is not to wait. All gates
  // are asked first, then the call sleeps once, until the last turn, while it holds its permits. A
  // window, under which no turns can be reserved, refuses as without this.
  Limited wait_at_most(Nanos max_wait) && {
    max_wait_ = max_wait;
    return std::move(*this);
  }

  // Sets the clock to wait on, which should be the gates' clock. Default: system_clock().
  Limited on(const Clock& clock) && {
    clock_ = &clock;
    return std::move(*this);
  }

  // Sets the fallback that is called when a gate refuses, and only then: exceptions of the function
  // propagate. It is called with (const Denial&, args...), (args...) or (), whichever it accepts;
  // the call returns its value.
  template <typename NewFallback>
  auto or_else(NewFallback fallback) && {
    return Limited<F, NewFallback, Gates...>{std::move(f_), std::move(fallback), std::move(gates_),
                                             max_wait_, *clock_};
  }

  // Calls the function with forwarded arguments if all gates admit. Returns the value of the
  // function or of the fallback; without a fallback, Result<R, Denial>, where R is std::monostate
  // for a function that returns void. Tokens are spent as soon as the function is called. Permits
  // are released when it returns or throws.
  template <typename... Args>
  requires std::invocable<F&, Args...>
  auto operator()(Args&&... args) ->
      typename detail::CallResult<std::invoke_result_t<F&, Args...>, Fallback>::type {
    return call(*this, std::forward<Args>(args)...);
  }
  template <typename... Args>
  requires std::invocable<const F&, Args...>
  auto operator()(Args&&... args) const ->
      typename detail::CallResult<std::invoke_result_t<const F&, Args...>, Fallback>::type {
    return call(*this, std::forward<Args>(args)...);
  }

 private:
  template <typename, typename, typename...>
  friend class Limited;

  template <typename Self, typename... Args>
  using ResultOf = std::invoke_result_t<decltype((std::declval<Self&>().f_)), Args...>;
  template <typename Self, typename... Args>
  using ReturnType = typename detail::CallResult<ResultOf<Self, Args...>, Fallback>::type;

  template <typename Gate>
  auto with(Gate gate) && {
    return Limited<F, Fallback, Gates..., Gate>{
        std::move(f_), std::move(fallback_),
        std::tuple_cat(std::move(gates_), std::tuple<Gate>{std::move(gate)}), max_wait_, *clock_};
  }

  template <typename Self, typename... Args>
  static ReturnType<Self, Args...> call(Self& self, Args&&... args) {
    const detail::WaitBudget budget{self.max_wait_, *self.clock_};
    detail::Passes<detail::HeldPassOf<Gates, Args...>...> passes;
    if (const auto denial = passes.collect(self.gates_, budget, args...)) {
      passes.give_back();
      return refused(self, *denial, std::forward<Args>(args)...);
    }
    if (budget.any()) self.clock_->sleep_until(passes.ready_at(), {});
    passes.keep();
    return admitted(self, std::forward<Args>(args)...);
  }

  template <typename Self, typename... Args>
  static ReturnType<Self, Args...> admitted(Self& self, Args&&... args) {
    constexpr bool is_void = std::is_void_v<ResultOf<Self, Args...>>;
    if constexpr (is_void && std::is_same_v<Fallback, detail::NoFallback>) {
      std::invoke(self.f_, std::forward<Args>(args)...);
      return std::monostate{};
    } else {
      return std::invoke(self.f_, std::forward<Args>(args)...);
    }
  }

  template <typename Self, typename... Args>
  static ReturnType<Self, Args...> refused(Self& self, const Denial& denial, Args&&... args) {
    if constexpr (std::is_same_v<Fallback, detail::NoFallback>) {
      return denial;
    } else if constexpr (std::is_void_v<ReturnType<Self, Args...>>) {
      static_cast<void>(fall_back(self, denial, std::forward<Args>(args)...));
    } else {
      return fall_back(self, denial, std::forward<Args>(args)...);
    }
  }

  template <typename Self, typename... Args>
  static decltype(auto) fall_back(Self& self, const Denial& denial, Args&&... args) {
    using FallbackRef = decltype((self.fallback_));
    if constexpr (std::is_invocable_v<FallbackRef, const Denial&, Args...>) {
      return std::invoke(self.fallback_, denial, std::forward<Args>(args)...);
    } else if constexpr (std::is_invocable_v<FallbackRef, Args...>) {
      return std::invoke(self.fallback_, std::forward<Args>(args)...);
    } else {
      static_assert(std::is_invocable_v<FallbackRef>,
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

// Puts `f` behind gates. Written as one chain:
//
//   auto fetch = weir::limited([&](UserId id) { return backend.fetch(id); })
//                    .by(slots)                                         // calls at a time
//                    .by(per_user, [](const UserId& id) { return id.view(); })
//                    .or_else([&](const weir::Denial&, UserId id) { return cache.stale(id); });
//   User user = fetch(id);
template <typename F>
auto limited(F f) {
  return Limited<F>{std::move(f)};
}

}  // namespace v0
}  // namespace weir
