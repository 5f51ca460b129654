//! FF1 against NIST's samples and another implementation.

use ciphermill_contract::suite::{AesSize, Ff1, Suite};
use ciphermill_contract::{Direction, OpStatus, Reason};
use fpe::ff1::{FF1, FlexibleNumeralString};
use proptest::prelude::*;

use crate::run::{Parts, agrees, bytes, hex, run};

fn numerals(digits: &str) -> Vec<u8> {
    digits.chars().flat_map(|digit| (digit.to_digit(36).unwrap() as u16).to_le_bytes()).collect()
}

fn to_bytes(numerals: &[u16]) -> Vec<u8> {
    numerals.iter().flat_map(|numeral| numeral.to_le_bytes()).collect()
}

/// NIST, "Block Cipher Modes of Operation: FF1 Method for Format-Preserving Encryption", samples 1 to 9.
#[test]
fn the_nine_samples_of_nist() {
    let key = "2b7e151628aed2a6abf7158809cf4f3cef4359d8d580aa4f7f036d6f04fc6a94";
    let digits = "0123456789";
    let letters = "0123456789abcdefghi";
    let tweak_10 = "39383736353433323130";
    let tweak_36 = "3737373770717273373737";
    let samples = [
        (AesSize::Aes128, 10, "", digits, "2433477484"),
        (AesSize::Aes128, 10, tweak_10, digits, "6124200773"),
        (AesSize::Aes128, 36, tweak_36, letters, "a9tv40mll9kdu509eum"),
        (AesSize::Aes192, 10, "", digits, "2830668132"),
        (AesSize::Aes192, 10, tweak_10, digits, "2496655549"),
        (AesSize::Aes192, 36, tweak_36, letters, "xbj3kv35jrawxv32ysr"),
        (AesSize::Aes256, 10, "", digits, "6657667009"),
        (AesSize::Aes256, 10, tweak_10, digits, "1001623463"),
        (AesSize::Aes256, 36, tweak_36, letters, "xs8a0azh2avyalyzuwd"),
    ];
    for (size, radix, tweak, input, output) in samples {
        let parts =
            Parts { key: hex(&key[..2 * size.key_len()]), aad: hex(tweak), input: numerals(input), ..Parts::default() };
        agrees(Suite::Fpe(Ff1 { size, radix }), &parts, &numerals(output), &[]);
    }
}

#[test]
fn a_numeral_that_is_the_radix_is_refused() {
    let suite = Suite::Fpe(Ff1 { size: AesSize::Aes128, radix: 10 });
    let mut input = numerals("0123456789");
    input[6] = 10;
    let parts = Parts { key: bytes(1, 16), input, ..Parts::default() };
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        let outcome = run(suite, direction, &parts);
        assert_eq!(outcome.status, OpStatus::BadInput(Reason::NumeralOutOfRange));
        assert_eq!(outcome.room, vec![0; 20]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_fpe_crate_agrees(
        radix in prop_oneof![2u32..=40, 250u32..=260, 65_530u32..=65_536, 2u32..=65_536],
        key in prop::array::uniform32(any::<u8>()),
        tweak in prop::collection::vec(any::<u8>(), 0..40),
        raw in prop::collection::vec(any::<u16>(), 20..90),
    ) {
        let plain: Vec<u16> = raw.iter().map(|numeral| (u32::from(*numeral) % radix) as u16).collect();
        let theirs = FF1::<aes::Aes256>::new(&key, radix).unwrap();
        let cipher: Vec<u16> =
            theirs.encrypt(&tweak, &FlexibleNumeralString::from(plain.clone())).unwrap().into();
        let parts = Parts { key: key.to_vec(), aad: tweak, input: to_bytes(&plain), ..Parts::default() };
        agrees(Suite::Fpe(Ff1 { size: AesSize::Aes256, radix }), &parts, &to_bytes(&cipher), &[]);
    }
}
