#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>

namespace weir::core {

// Runs `property` on random cases, the same ones in each run unless RC_PARAMS says otherwise. Fails
// the surrounding test with the smallest counterexample found and its seed.
template <typename Property>
void check(Property&& property, int cases = 600) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  rc::detail::TestMetadata metadata;
  metadata.id = std::string{test->test_suite_name()} + "/" + test->name();
  metadata.description = test->name();

  rc::detail::TestParams params = rc::detail::configuration().testParams;
  if (std::getenv("RC_PARAMS") == nullptr) {
    params.seed = 20260101;
    params.maxSuccess = cases;
  }
  const auto result = rc::detail::checkTestable(std::forward<Property>(property), metadata, params);
  if (result.template is<rc::detail::SuccessResult>()) return;
  std::ostringstream message;
  rc::detail::printResultMessage(result, message);
  ADD_FAILURE() << message.str() << "\nseed: " << params.seed;
}

}  // namespace weir::core
