#include "train/permutation.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace ppctl {
namespace {

std::vector<std::int64_t> order(std::int64_t size, std::uint64_t key) {
  const Permutation permutation(size, key);
  std::vector<std::int64_t> elements;
  for (std::int64_t i = 0; i < size; ++i) elements.push_back(permutation(i));
  return elements;
}

TEST(Permutation, VisitsEveryElementOnce) {
  for (const std::int64_t size : {1, 2, 3, 4, 5, 7, 64, 100, 336, 1000, 4097}) {
    const auto elements = order(size, 7);
    const std::set<std::int64_t> distinct(elements.begin(), elements.end());
    EXPECT_EQ(static_cast<std::int64_t>(distinct.size()), size);
    EXPECT_EQ(*distinct.begin(), 0);
    EXPECT_EQ(*distinct.rbegin(), size - 1);
  }
}

TEST(Permutation, DependsOnItsKeyAlone) {
  EXPECT_EQ(order(100, 1), order(100, 1));
  EXPECT_NE(order(100, 1), order(100, 2));
}

TEST(Permutation, MovesElementsFarAndInNoDirection) {
  // Of a random order of n elements about one stays where it was, and half of the steps go up.
  const auto elements = order(1000, 3);
  int fixed = 0;
  int up = 0;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    fixed += elements[i] == static_cast<std::int64_t>(i) ? 1 : 0;
    if (i > 0) up += elements[i] > elements[i - 1] ? 1 : 0;
  }
  EXPECT_LT(fixed, 8);
  EXPECT_GT(up, 440);
  EXPECT_LT(up, 560);
}

TEST(Permutation, HandlesMoreElementsThan32BitsCount) {
  const std::int64_t size = std::int64_t{5} << 32;
  const Permutation permutation(size, 1);
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < 100; ++i) {
    const std::int64_t element = permutation(size - 1 - i);
    EXPECT_GE(element, 0);
    EXPECT_LT(element, size);
    EXPECT_TRUE(seen.insert(element).second);
  }
}

}  // namespace
}  // namespace ppctl
