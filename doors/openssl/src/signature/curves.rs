//! Signatures on curves.

use ciphermill_contract::suite::Signature;
use ciphermill_contract::{Direction, Suite};
use zeroize::Zeroizing;

use crate::backend::Backend;
use crate::dispatch::{Object, Signatures};
use crate::key::Key;
use crate::material::Usable;
use crate::operation::Operation;
use crate::params::{END, ask_len};
use crate::run::run;

/// Bytes of the digest that a context of `default` signs, zero for any. `None` when it does not say.
pub(super) fn digest_len(functions: &Signatures, context: Object) -> Option<usize> {
    let mut len = 0;
    let mut params = [ask_len(c"digest-size", &mut len), END];
    // SAFETY: a context of these functions; a parameter with room for the answer.
    (unsafe { functions.get_ctx_params?(context, params.as_mut_ptr()) } == 1).then_some(len)
}

/// Signs a digest by ECDSA (FIPS 186-5, 6.4.1). `None` when `default` is to do it.
pub(super) fn ecdsa(backend: &'static Backend, key: &Key, digest: &[u8]) -> Option<Vec<u8>> {
    let (id, Usable::Ec(curve)) = key.usable(backend)? else { return None };
    let suite = Suite::Sign(Signature::EcdsaDigest(curve));
    if !suite.input_len(Direction::Encrypt).contains(digest.len()) {
        return None;
    }
    let signature = signed(backend, suite, id, digest)?;
    let (r, s) = signature.split_at_checked(curve.order_len())?;
    der(r, s)
}

/// `Ecdsa-Sig-Value` in DER (RFC 3279, 2.2.3).
fn der(r: &[u8], s: &[u8]) -> Option<Vec<u8>> {
    let mut numbers = Vec::with_capacity(r.len() + s.len() + 8);
    for number in [r, s] {
        let zeros = number.iter().take_while(|byte| **byte == 0).count();
        let number = &number[zeros..];
        // A number whose highest bit is set would be negative; there is none of no bytes.
        let padding = number.first().is_none_or(|byte| byte >> 7 == 1);
        numbers.extend([0x02, u8::try_from(usize::from(padding) + number.len()).ok()?]);
        numbers.extend(padding.then_some(0));
        numbers.extend(number);
    }
    let len = u8::try_from(numbers.len()).ok()?;
    let mut sequence = Vec::with_capacity(3 + numbers.len());
    sequence.push(0x30);
    // Lengths from 128 on take a byte that says how many bytes they have (X.690, 8.1.3.5).
    sequence.extend((len >> 7 == 1).then_some(0x81));
    sequence.push(len);
    sequence.extend(numbers);
    Some(sequence)
}

/// Both numbers of an `Ecdsa-Sig-Value` as long as the order; `None` for what is not written in the one way of DER.
pub(super) fn fixed(signature: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut fixed = vec![0; 2 * len];
    let (r, s) = fixed.split_at_mut(len);
    let mut rest = signature.get(if signature.get(1)? >> 7 == 1 { 3 } else { 2 }..)?;
    for number in [r, s] {
        let (header, behind) = rest.split_first_chunk::<2>()?;
        let (bytes, behind) = behind.split_at_checked(usize::from(header[1]))?;
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        let bytes = &bytes[zeros..];
        let at = len.checked_sub(bytes.len())?;
        number[at..].copy_from_slice(bytes);
        rest = behind;
    }
    // Whatever else was there is not what is written for these numbers.
    let (r, s) = fixed.split_at(len);
    (der(r, s)? == signature).then_some(fixed)
}

/// Signs a message by Ed25519 (RFC 8032, 5.1.6) or ML-DSA (FIPS 204, algorithm 2). `None` when `default` is to do it.
pub(super) fn of_message(backend: &'static Backend, key: &Key, message: &[u8]) -> Option<Vec<u8>> {
    let (id, usable @ (Usable::Ed25519 | Usable::MlDsa(_))) = key.usable(backend)? else { return None };
    signed(backend, usable.signature()?, id, message)
}

fn signed(backend: &'static Backend, suite: Suite, key: ciphermill_contract::KeyId, input: &[u8]) -> Option<Vec<u8>> {
    let tag = vec![0; suite.tag_len(Direction::Encrypt).min];
    let data = Zeroizing::new(input.to_vec());
    let operation = Operation { suite, direction: Direction::Encrypt, key, data, input_len: input.len(), tag };
    run(backend, operation).map(|done| done.tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_short_as_they_can_be_and_never_negative() {
        assert_eq!(der(&[0, 0, 0x7f], &[0, 0x80]), Some(vec![0x30, 7, 2, 1, 0x7f, 2, 2, 0, 0x80]));
        assert_eq!(der(&[0; 3], &[1]), Some(vec![0x30, 6, 2, 1, 0, 2, 1, 1]));
        for (r, s) in [([1, 0xff], [0, 0]), ([0, 0x80], [0x7f, 1])] {
            let signature = der(&r, &s).expect("short");
            assert_eq!(fixed(&signature, 2), Some([r, s].concat()));
            assert_eq!(fixed(&signature[..signature.len() - 1], 2), None);
            assert_eq!(fixed(&[&signature[..], &[0]].concat(), 2), None);
        }
        // A number that is longer than it has to be, one that is longer than the order, one that is negative, and nothing.
        for wrong in [
            &[0x30, 7, 2, 2, 0, 1, 2, 1, 1][..],
            &[0x30, 8, 2, 3, 1, 1, 1, 2, 1, 1],
            &[0x30, 6, 2, 1, 0x80, 2, 1, 1],
            &[],
        ] {
            assert_eq!(fixed(wrong, 2), None, "{wrong:x?}");
        }
        let long = der(&[0xff; 66], &[0xff; 66]).expect("a signature on P-521");
        assert_eq!(fixed(&long, 66), Some(vec![0xff; 132]));
        assert_eq!((&long[..5], long.len()), (&[0x30, 0x81, 138, 2, 67][..], 141));
    }
}
