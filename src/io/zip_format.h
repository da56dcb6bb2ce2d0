// SPDX-License-Identifier: Apache-2.0
// The numbers of the zip format that reader and writer share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hydramix::zip_format {

inline constexpr std::uint32_t kLocalSignature = 0x04034b50, kCentralSignature = 0x02014b50,
                               kEndSignature = 0x06054b50, kEnd64Signature = 0x06064b50,
                               kLocatorSignature = 0x07064b50;
inline constexpr std::size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kEnd64Size = 56,
                             kLocatorSize = 20, kLongestComment = 0xffff;
inline constexpr std::uint16_t kMax16 = 0xffff;
inline constexpr std::uint32_t kMax32 = 0xffffffff;  // "see the zip64 field"
inline constexpr std::uint16_t kZip64Field = 1;
inline constexpr std::uint16_t kPaddingField = 0x4246;  // "FB", as PyTorch pads
inline constexpr std::uint16_t kEncrypted = 1, kUtf8Names = 0x800;
inline constexpr std::uint16_t kStored = 0;
inline constexpr std::uint16_t kVersionPlain = 20, kVersionZip64 = 45;
// The comment that ends our archives: this, and eight hexadecimal digits.
inline constexpr std::string_view kSumComment = "hydramix crc32c=";
// 1 January 1980 in every archive, so that equal contents give equal bytes.
inline constexpr std::uint16_t kFirstDay = 0x21;

}  // namespace hydramix::zip_format
