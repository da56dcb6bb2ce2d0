// SPDX-License-Identifier: Apache-2.0
// The page that is compiled in: it is that of src/serve/page, complete, and obeys its own policy.
#include "serve/page_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "base/sha256.h"

namespace hydramix {
namespace {

const std::filesystem::path kPageFolder =
    std::filesystem::path(HYDRAMIX_SOURCE_DIR) / "src/serve/page";

std::string page_text(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string page_digest(std::string_view text) {
  std::string digits;
  for (const uint8_t byte : sha256(text))
    for (const int digit : {byte >> 4, byte & 15}) digits += "0123456789abcdef"[digit];
  return digits;
}

std::set<std::string> matches(std::string_view text, const std::string& pattern) {
  const std::string whole(text);
  const std::regex expression(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator at(whole.begin(), whole.end(), expression), end; at != end; ++at)
    found.insert((*at)[1]);
  return found;
}

TEST(PageFiles, AreThoseOfTheFolder) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kPageFolder)) {
    const std::string name = entry.path().filename();
    const auto file = page_file(name == "index.html" ? "/" : "/" + name);
    ASSERT_TRUE(file) << name;
    EXPECT_EQ(file->content, page_text(entry.path())) << name;
    EXPECT_EQ(file->digest, page_digest(file->content)) << name;
    ++count;
  }
  EXPECT_EQ(page_paths().size(), count);
  EXPECT_GT(count, 10u);
}

TEST(PageFiles, HaveTheTypesThatBrowsersDemandOfModulesAndStyles) {
  EXPECT_EQ(page_file("/")->type, "text/html; charset=utf-8");
  EXPECT_EQ(page_file("/page.css")->type, "text/css; charset=utf-8");
  EXPECT_EQ(page_file("/app.js")->type, "text/javascript; charset=utf-8");
  EXPECT_EQ(page_file("/icon.svg")->type, "image/svg+xml");
}

TEST(PageFiles, OtherPathsHaveNoFile) {
  for (const std::string_view path :
       {"", "/index.html", "page.css", "/page.css/", "/../page.css", "/PAGE.CSS", "//", "/embed"})
    EXPECT_FALSE(page_file(path)) << path;
}

// Everything that one file asks for is there, and nothing comes from elsewhere.
TEST(PageFiles, NameOnlyEachOther) {
  for (const auto path : page_paths()) {
    const auto content = page_file(path)->content;
    const auto imported = matches(content, R"((?:from|import) '\./([^']+)')");
    for (const auto& name : imported) EXPECT_TRUE(page_file("/" + name)) << path << ": " << name;
    for (const auto& name : matches(content, R"re( (?:src|href)="([^"#$]+)")re"))
      EXPECT_TRUE(page_file("/" + name) || name == "openapi.json") << path << ": " << name;
    for (const auto& address : matches(content, R"((https?://[^"'`\s]+))"))
      EXPECT_EQ(address, "http://www.w3.org/2000/svg") << path << " names another server";
    EXPECT_TRUE(matches(content, R"((url\(|@import))").empty()) << path;
  }
}

// kPagePolicy would stop such a script, style or handler, and part of the page would not work.
TEST(PageFiles, HaveNoInlineScriptStyleOrHandler) {
  const auto html = page_file("/")->content;
  EXPECT_TRUE(matches(html, R"re(<script(?![^>]* src=")([^>]*)>)re").empty());
  EXPECT_TRUE(matches(html, R"((<style|\sstyle=|\son[a-z]+=|javascript:))").empty());
  for (const auto path : page_paths())
    EXPECT_TRUE(matches(page_file(path)->content,
                        R"((innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b))")
                    .empty())
        << path << ": text from the server could become elements";
  EXPECT_EQ(kPagePolicy.find("unsafe"), std::string_view::npos);
}

// A label without a field, or a field without a label, is found by no other test.
TEST(PageFiles, EveryFieldHasALabel) {
  const auto html = page_file("/")->content;
  const auto labelled = matches(html, R"re(<label for="([^"]+)")re");
  for (const auto& id : matches(html, R"re(<(?:textarea|select) id="([^"]+)")re"))
    EXPECT_TRUE(labelled.count(id)) << id;
  for (const auto& id : labelled)
    EXPECT_NE(html.find("id=\"" + id + "\""), std::string_view::npos) << id;
}

}  // namespace
}  // namespace hydramix
