#pragma once

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "../../support/folder.h"

namespace weir::net {

using Key = std::shared_ptr<EVP_PKEY>;
using Certificate = std::shared_ptr<X509>;

// A name, its key and its certificate.
struct Identity {
  std::string name{};
  Key key{};
  Certificate certificate{};
};

inline void add_extension(X509* certificate, int kind, const char* value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// Makes a certificate signed by `signer`. Without one it is self-signed, and a CA.
inline Identity make_identity(const std::string& name, const Identity* signer = nullptr,
                              long seconds_left = 3600) {
  Identity made{.name = name,
                .key = Key(EVP_EC_gen("P-256"), &EVP_PKEY_free),
                .certificate = Certificate(X509_new(), &X509_free)};
  X509* certificate = made.certificate.get();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), std::rand());
  X509_gmtime_adj(X509_getm_notBefore(certificate), -7200);
  X509_gmtime_adj(X509_getm_notAfter(certificate), seconds_left);
  X509_set_pubkey(certificate, made.key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  const Identity& by = signer != nullptr ? *signer : made;
  X509_set_issuer_name(certificate, X509_get_subject_name(by.certificate.get()));
  if (signer == nullptr) add_extension(certificate, NID_basic_constraints, "critical,CA:TRUE");
  EXPECT_GT(X509_sign(certificate, by.key.get(), EVP_sha256()), 0);
  return made;
}

// A folder for PEM files, removed after the test.
class PemFolder {
 public:
  std::string path(const std::string& name) const { return folder_ / name; }

  std::string write(const std::string& name, const Certificate& certificate) const {
    return fill(name, [&](FILE* file) { PEM_write_X509(file, certificate.get()); });
  }
  std::string write(const std::string& name, const Key& key,
                    const char* passphrase = nullptr) const {
    return fill(name, [&](FILE* file) {
      const int size = passphrase != nullptr ? static_cast<int>(std::strlen(passphrase)) : 0;
      PEM_write_PrivateKey(file, key.get(), passphrase != nullptr ? EVP_aes_256_cbc() : nullptr,
                           reinterpret_cast<const unsigned char*>(passphrase), size, nullptr,
                           nullptr);
    });
  }
  std::string write(const std::string& name, std::string_view text) const {
    return fill(name, [&](FILE* file) { fwrite(text.data(), 1, text.size(), file); });
  }

 private:
  template <typename Fill>
  std::string fill(const std::string& name, Fill fill_in) const {
    FILE* file = fopen(path(name).c_str(), "w");
    fill_in(file);
    fclose(file);
    return path(name);
  }

  support::Folder folder_;
};

}  // namespace weir::net
