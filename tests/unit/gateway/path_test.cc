#include "gateway/path.h"

#include <gtest/gtest.h>

namespace weir::gateway {
namespace {

struct Forms {
  std::string forwarded, plain, lenient;
  friend bool operator==(const Forms&, const Forms&) = default;
};
void PrintTo(const Forms& forms, std::ostream* out) {
  *out << forms.forwarded << " | " << forms.plain << " | " << forms.lenient;
}

Forms forms_of(std::string_view text) {
  Path path;
  if (!read_path(text, path)) return {"refused", "", ""};
  return {path.forwarded, path.plain, path.lenient};
}
// Both forms agree, and nothing is escaped.
Forms same(const std::string& text) { return {text, text, text}; }
const Forms kRefused{"refused", "", ""};

std::string host_of(std::string_view text) {
  std::string host;
  return read_host(text, host) ? host : "refused";
}

TEST(Path, IsUnchangedIfItIsNormal) {
  for (const char* text : {"/", "/a", "/a/b.c/d-e_f~g", "/a!$&'()*+,=:@b", "*"}) {
    EXPECT_EQ(forms_of(text), same(text));
  }
}

TEST(Path, HasOneSpellingForEachCharacter) {
  EXPECT_EQ(forms_of("/%41%7a%2D%2e"), same("/Az-."));
  EXPECT_EQ(forms_of("/a%20b"), (Forms{"/a%20b", "/a b", "/a b"}));
  EXPECT_EQ(forms_of("/caf%c3%a9"), (Forms{"/caf%C3%A9", "/caf\xc3\xa9", "/caf\xc3\xa9"}));
  EXPECT_EQ(forms_of("/caf\xc3\xa9"), (Forms{"/caf%C3%A9", "/caf\xc3\xa9", "/caf\xc3\xa9"}));
  // An escape of a reserved character stays one for the service; routes and keys see the character.
  EXPECT_EQ(forms_of("/a%3ab"), (Forms{"/a%3Ab", "/a:b", "/a:b"}));
  EXPECT_EQ(forms_of("/a%3Fb%23"), (Forms{"/a%3Fb%23", "/a?b#", "/a?b#"}));
  // A double escape is decoded once.
  EXPECT_EQ(forms_of("/%252e%252e/a"), (Forms{"/%252e%252e/a", "/%2e%2e/a", "/%2e%2e/a"}));
}

TEST(Path, ResolvesDotsAndEmptySegments) {
  EXPECT_EQ(forms_of("/a/./b"), same("/a/b"));
  EXPECT_EQ(forms_of("/a/../b"), same("/b"));
  EXPECT_EQ(forms_of("/a/%2e%2E/b"), same("/b"));
  EXPECT_EQ(forms_of("/a/b/.."), (Forms{"/a/", "/a", "/a"}));
  EXPECT_EQ(forms_of("/.."), same("/"));
  EXPECT_EQ(forms_of("/../../etc/passwd"), same("/etc/passwd"));
  EXPECT_EQ(forms_of("//a///b"), same("/a/b"));
  EXPECT_EQ(forms_of("//"), same("/"));
  // Three dots are an ordinary name.
  EXPECT_EQ(forms_of("/.../..a/b.."), same("/.../..a/b.."));
}

TEST(Path, KeepsATrailingSlashForTheServiceOnly) {
  EXPECT_EQ(forms_of("/a/"), (Forms{"/a/", "/a", "/a"}));
  EXPECT_EQ(forms_of("/a/."), (Forms{"/a/", "/a", "/a"}));
  EXPECT_EQ(forms_of("/%61/"), (Forms{"/a/", "/a", "/a"}));
}

// Some servers take these for slashes, and drop path parameters.
TEST(Path, HasALenientForm) {
  EXPECT_EQ(forms_of("/a%2fb"), (Forms{"/a%2Fb", "/a%2Fb", "/a/b"}));
  EXPECT_EQ(forms_of("/a%5Cb"), (Forms{"/a%5Cb", "/a%5Cb", "/a/b"}));
  EXPECT_EQ(forms_of("/a\\b"), (Forms{"/a%5Cb", "/a%5Cb", "/a/b"}));
  EXPECT_EQ(forms_of("/a;v=1/b"), (Forms{"/a;v=1/b", "/a;v=1/b", "/a/b"}));
  EXPECT_EQ(forms_of("/a%3bv=1/b"), (Forms{"/a%3Bv=1/b", "/a;v=1/b", "/a/b"}));
  EXPECT_EQ(forms_of("/;x/a"), (Forms{"/;x/a", "/;x/a", "/a"}));
  EXPECT_EQ(forms_of("/;"), (Forms{"/;", "/;", "/"}));
}

TEST(Path, IsRefusedIfTheLenientFormHasADotSegment) {
  for (const char* text : {"/a/..;/b", "/a/..;x=1/b", "/a/.;/b", "/a/..%2fb", "/a%2f../b",
                           "/a/..%5cb", "/a\\..\\b", "/a/%2e%2e%2fb", "/..%3b/a"}) {
    EXPECT_EQ(forms_of(text), kRefused) << text;
  }
}

TEST(Path, IsRefusedIfItIsMalformed) {
  for (const char* text :
       {"/%", "/%4", "/%zz", "/a%0", "/%00", "/a%00b", "/a%0ab", "/%7f", "a", "", "http://a/"}) {
    EXPECT_EQ(forms_of(text), kRefused) << text;
  }
}

TEST(Host, HasOneSpelling) {
  EXPECT_EQ(host_of("Shop.Example.COM"), "shop.example.com");
  EXPECT_EQ(host_of("shop.example.com."), "shop.example.com");
  EXPECT_EQ(host_of("shop.example.com:8080"), "shop.example.com");
  EXPECT_EQ(host_of("shop.example.com.:8080"), "shop.example.com");
  EXPECT_EQ(host_of("a:"), "a");
  EXPECT_EQ(host_of("[::1]"), "::1");
  EXPECT_EQ(host_of("[2001:DB8:0:0::1]:443"), "2001:db8::1");
  EXPECT_EQ(host_of("192.0.2.1:80"), "192.0.2.1");
  EXPECT_EQ(host_of(""), "");
}

TEST(Host, IsRefusedIfItIsMalformed) {
  for (const char* text : {".", "..", "a..", ":80", "a:b", "a:123456", "::1", "[::1", "[1.2.3.4]",
                           "[::1]x", "a b", "a/b", "user@a", "a%41", "a,b"}) {
    EXPECT_EQ(host_of(text), "refused") << text;
  }
  EXPECT_EQ(host_of(std::string(254, 'a')), "refused");
  EXPECT_EQ(host_of(std::string(253, 'a')), std::string(253, 'a'));
}

}  // namespace
}  // namespace weir::gateway
