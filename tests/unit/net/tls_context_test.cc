#include "net/tls_context.h"

#include <gmock/gmock.h>

#include "certificates.h"

namespace weir::net {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

class TlsContextTest : public testing::Test {
 protected:
  std::string wrong(const PemFiles& files) {
    const auto context = load_tls(files);
    return context ? "" : context.error().message;
  }

  Identity ca = make_identity("ca");
  Identity server = make_identity("server", &ca);
  Identity other = make_identity("other", &ca);
  PemFolder folder;
  std::string cert = folder.write("cert.pem", server.certificate);
  std::string key = folder.write("key.pem", server.key);
  std::string ca_file = folder.write("ca.pem", ca.certificate);
};

TEST_F(TlsContextTest, LoadsFilesOfAServer) {
  EXPECT_TRUE(load_tls({.cert = cert, .key = key}));
  EXPECT_TRUE(load_tls({.cert = cert, .key = key, .ca = ca_file}));
}

TEST_F(TlsContextTest, LoadsFilesOfAClientAllOfThemOptional) {
  EXPECT_TRUE(load_client_tls({}));
  EXPECT_TRUE(load_client_tls({.ca = ca_file}));
  EXPECT_TRUE(load_client_tls({.cert = cert, .key = key, .ca = ca_file}));
}

TEST_F(TlsContextTest, NamesTheClientFileThatIsUnusable) {
  const std::string nowhere = folder.path("nowhere.pem");
  const auto wrong_client = [](const PemFiles& files) {
    const auto context = load_client_tls(files);
    return context ? "" : context.error().message;
  };
  EXPECT_THAT(wrong_client({.ca = nowhere}), HasSubstr("the ca " + nowhere));
  EXPECT_THAT(wrong_client({.cert = nowhere, .key = key}), HasSubstr("the certificate " + nowhere));
  EXPECT_THAT(wrong_client({.cert = cert, .key = folder.write("other.key", other.key)}),
              HasSubstr("does not belong to the certificate"));
}

TEST_F(TlsContextTest, NamesAFileThatDoesNotExist) {
  const std::string nowhere = folder.path("nowhere.pem");
  const auto what = [&](const char* name) {
    return AllOf(HasSubstr(std::string("the ") + name + " " + nowhere),
                 EndsWith("No such file or directory"));
  };
  EXPECT_THAT(wrong({.cert = nowhere, .key = key}), what("certificate"));
  EXPECT_THAT(wrong({.cert = cert, .key = nowhere}), what("key"));
  EXPECT_THAT(wrong({.cert = cert, .key = key, .ca = nowhere}), what("ca"));
}

TEST_F(TlsContextTest, NamesAFileThatIsNotPem) {
  for (const std::string_view text :
       {"", "nonsense\n", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}) {
    const std::string odd = folder.write("odd.pem", text);
    EXPECT_THAT(wrong({.cert = odd, .key = key}), HasSubstr("the certificate " + odd + ": "))
        << text;
    EXPECT_THAT(wrong({.cert = cert, .key = odd}), HasSubstr("the key " + odd + ": ")) << text;
    EXPECT_THAT(wrong({.cert = cert, .key = key, .ca = odd}), HasSubstr("the ca " + odd + ": "))
        << text;
  }
  EXPECT_THAT(wrong({.cert = key, .key = key}),
              EndsWith("it holds none in PEM format (-----BEGIN …)"));
  EXPECT_THAT(wrong({.cert = cert, .key = cert}),
              EndsWith("it holds none in PEM format (-----BEGIN …)"));
}

TEST_F(TlsContextTest, RefusesAKeyOfAnotherCertificate) {
  const std::string strange = folder.write("other.pem", other.key);
  EXPECT_THAT(wrong({.cert = cert, .key = strange}),
              EndsWith("the key " + strange + ": it does not belong to the certificate " + cert));
}

// A daemon has no terminal to ask at.
TEST_F(TlsContextTest, RefusesAKeyWithAPassphrase) {
  const std::string locked = folder.write("locked.pem", server.key, "secret");
  EXPECT_THAT(wrong({.cert = cert, .key = locked}),
              EndsWith("it is encrypted with a passphrase: use a key without one"));
}

TEST_F(TlsContextTest, CanBeReplacedWhileInUse) {
  CurrentTls current(*load_tls({.cert = cert, .key = key}));
  const TlsContext before = current.get();
  current.use(*load_tls({.cert = cert, .key = key}));
  EXPECT_NE(current.get(), before);
  EXPECT_EQ(before.use_count(), 1) << "the old context is released with its last user";
}

}  // namespace
}  // namespace weir::net
