// SPDX-License-Identifier: Apache-2.0
// The answers with the page: headers, and nothing twice.
#include "serve/page_route.h"

#include <gtest/gtest.h>

#include <map>

namespace hydramix::serve {
namespace {

std::map<std::string, std::string> page_headers(const HttpAnswer& answer) {
  return {answer.headers.begin(), answer.headers.end()};
}

TEST(PageRoute, SendsTheFileWithItsPolicy) {
  const auto file = *page_file("/");
  HttpRequest front;
  front.path = "/";
  const auto answer = page_answer(front);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.content_type, "text/html; charset=utf-8");
  EXPECT_EQ(answer.body, file.content);
  const auto headers = page_headers(answer);
  EXPECT_EQ(headers.at("ETag"), "\"" + std::string(file.digest) + "\"");
  EXPECT_EQ(headers.at("Cache-Control"), "no-cache");
  EXPECT_EQ(headers.at("Content-Security-Policy"), kPagePolicy);
}

TEST(PageRoute, SendsNothingThatTheClientHas) {
  HttpRequest request;
  request.path = "/page.css";
  request.if_none_match = page_headers(page_answer(request)).at("ETag");
  const auto same = page_answer(request);
  EXPECT_EQ(same.status, 304);
  EXPECT_EQ(same.body, "");
  EXPECT_EQ(page_headers(same).at("ETag"), request.if_none_match);
  request.if_none_match = "\"of an older version\"";
  EXPECT_EQ(page_answer(request).status, 200);
}

}  // namespace
}  // namespace hydramix::serve
