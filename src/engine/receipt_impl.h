#pragma once

#include <span>
#include <string>
#include <vector>

#include "store/memory/table.h"
#include "store/shared_store.h"
#include "weir/engine.h"

namespace weir {
inline namespace v0 {

// The permits taken under each limit, by the fingerprint of limit and key. The limit's position may
// change with the policies. For another key, or in the table of another engine, nothing was taken.
struct Receipt::Impl {
  struct ReceiptEntry {
    store::Fingerprint key;
    bool by_fleet = false;     // admitted by the fleet
    bool from_lease = false;   // taken from a lease
    std::uint64_t mark = 0;    // of that lease
    std::uint32_t resets = 0;  // number of resets of the key on this node at the take
    store::StoreReceipt receipt{};
  };
  std::vector<ReceiptEntry> entries;
  std::string name;  // unique; set when permits are first given back to the fleet

  // Adds what this node admitted.
  void add(std::span<const store::Item> items, std::span<const std::uint32_t> resets,
           std::span<const core::Receipt> receipts) {
    entries.reserve(entries.size() + items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      entries.push_back(
          {.key = items[i].key, .resets = resets[i], .receipt = {.receipt = receipts[i]}});
    }
  }

  // A settle is complete: the next one is a new one, and not a repetition.
  void on_settled() {
    for (ReceiptEntry& entry : entries) entry.receipt.repeated = 0;
  }

  ReceiptEntry* find(const store::Fingerprint& key) {
    for (ReceiptEntry& entry : entries) {
      if (entry.key == key) return &entry;
    }
    return nullptr;
  }
};

}  // namespace v0
}  // namespace weir
