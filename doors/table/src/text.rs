//! Bytes as text in CSV files: base64url without padding (RFC 4648, section 5).
//!
//! Decoding is strict: one text for each byte string, so that a changed text never decodes to the same bytes.

use std::fmt::Write as _;
use std::time::SystemTime;

use base64::Engine as _;
use base64::decoded_len_estimate;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The time now as [`rfc_3339`] writes it; a clock before 1970 counts as 1970.
pub(crate) fn now() -> String {
    rfc_3339(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs())
}

/// The name of this encoding in manifests.
pub(crate) const BASE64URL: &str = "base64url";

/// Appends the text of `bytes`.
pub(crate) fn encode(bytes: &[u8], text: &mut Vec<u8>) {
    let start = text.len();
    text.resize(start + (4 * bytes.len()).div_ceil(3), 0);
    let written = URL_SAFE_NO_PAD.encode_slice(bytes, &mut text[start..]);
    debug_assert_eq!(written, Ok(text.len() - start), "four characters for three bytes");
}

/// Appends the bytes of `text`; `false`, and none, when it is not the text of any.
#[must_use]
pub(crate) fn decode(text: &[u8], bytes: &mut Vec<u8>) -> bool {
    let start = bytes.len();
    bytes.resize(start + decoded_len_estimate(text.len()), 0);
    // No padding, and bits that belong to no byte are zero.
    let decoded = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes[start..]);
    bytes.truncate(start + decoded.as_ref().map_or(0, |len| *len));
    decoded.is_ok()
}

/// The time as RFC 3339 writes it, in UTC and whole seconds.
pub(crate) fn rfc_3339(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let mut year = 1970;
    let mut day = days;
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    let mut text = String::with_capacity(20);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    // Writing to a string cannot fail.
    let _ = write!(text, "{year:04}-{:02}-{:02}T{hour:02}:{minute:02}:{:02}Z", month + 1, day + 1, second % 60);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(bytes: &[u8]) -> String {
        let mut text = Vec::new();
        encode(bytes, &mut text);
        String::from_utf8(text).unwrap()
    }

    /// RFC 4648, section 10, without padding.
    #[test]
    fn vectors_of_rfc_4648() {
        for (bytes, text) in
            [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(encoded(bytes.as_bytes()), text);
        }
        assert_eq!(encoded(&[0xfb, 0xff]), "-_8");
    }

    #[test]
    fn foreign_texts_are_refused() {
        for text in ["Z", "Zg==", "Zh", "Zm9", "Zm9v+", "Zm9v/w", "Zm9 v", "Zm9vé"] {
            assert!(!decode(text.as_bytes(), &mut Vec::new()), "{text}");
        }
    }

    #[test]
    fn times_are_written_in_utc() {
        assert_eq!(rfc_3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc_3339(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(rfc_3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc_3339(1_795_231_459), "2026-11-21T03:24:19Z");
    }

    proptest::proptest! {
        #[test]
        fn what_is_encoded_is_decoded(bytes: Vec<u8>) {
            let mut decoded = Vec::new();
            proptest::prop_assert!(decode(encoded(&bytes).as_bytes(), &mut decoded));
            proptest::prop_assert_eq!(decoded, bytes);
        }

        #[test]
        fn each_byte_string_has_one_text(text: Vec<u8>) {
            let mut decoded = Vec::new();
            if decode(&text, &mut decoded) {
                proptest::prop_assert_eq!(encoded(&decoded).into_bytes(), text);
            }
        }
    }
}
