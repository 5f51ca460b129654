//! A key's halves: what the device reads, and the host's arithmetic with the rest.

use std::sync::{Mutex, PoisonError};

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::{KeyMaterial, OpStatus};
use ciphermill_pairs::rsa::{PrivateNumbers, RsaNumbers};
use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{CtEq, CtLt, CtSelect, Limb, Odd, Uint};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::limbs::{LIMB_BITS, limbs};
use crate::keys::Halves;

/// How often blinding factors are squared before they are made anew, as OpenSSL has it.
const USES_MAX: u32 = 32;

/// The host's half of a key with a modulus of `N` words of 64 bits and primes of `H`.
pub(super) struct RsaKey<const N: usize, const H: usize> {
    pub(super) public: Public<N>,
    pub(super) private: Option<PrivatePart<N, H>>,
}

/// The modulus with what Montgomery's multiplication wants of it, and the exponent, which is odd and above one.
pub(super) struct Public<const N: usize> {
    params: FixedMontyParams<N>,
    exponent: u64,
}

/// The primes and `1 / q mod p`, and blinding factors that wait for their next use.
pub(super) struct PrivatePart<const N: usize, const H: usize> {
    p: Zeroizing<FixedMontyParams<H>>,
    q: Zeroizing<Uint<H>>,
    q_inverse: Zeroizing<FixedMontyForm<H>>,
    blinding: Mutex<Vec<Blinding<N>>>,
}

/// `r^e` and `1 / r` modulo `n`.
#[derive(Zeroize, ZeroizeOnDrop)]
struct Blinding<const N: usize> {
    hides: FixedMontyForm<N>,
    reveals: FixedMontyForm<N>,
    uses: u32,
}

/// A number times `r^e`, and what takes `r` out of the result.
pub(super) struct Hidden<const N: usize> {
    pub(super) hidden: Zeroizing<Uint<N>>,
    pub(super) reveals: Zeroizing<Uint<N>>,
}

impl<const N: usize, const H: usize> RsaKey<N, H> {
    /// Parses and checks a key with a modulus of exactly as many bits, and makes its halves. A key without a private one has
    /// nothing on the device.
    ///
    /// # Errors
    /// `Encoding` when the numbers do not belong together. The contract has looked at algorithm, shape and size.
    pub(super) fn prepare(key: &KeyMaterial<'_>) -> Result<Halves, KeyProblem> {
        const { assert!(N == 2 * H && Limb::BITS == 64) };
        let numbers = RsaNumbers::parse(key, 8 * N)?;
        let public = Public { params: params(&number(&numbers.modulus))?, exponent: numbers.exponent };
        let (private, device) = match &numbers.private {
            Some(private) => PrivatePart::new(private).map(|(private, device)| (Some(private), device))?,
            None => (None, Zeroizing::default()),
        };
        Ok(Halves { device, host: Some(Box::new(RsaKey::<N, H> { public, private })) })
    }
}

/// A number of exactly `L` words.
fn number<const L: usize>(bytes: &[u8]) -> Uint<L> {
    Uint::from_le_slice(bytes)
}

/// What Montgomery's multiplication wants of a modulus whose top bit is set.
fn params<const L: usize>(modulus: &Uint<L>) -> Result<FixedMontyParams<L>, KeyProblem> {
    let modulus = Option::from(Odd::new(*modulus)).ok_or(KeyProblem::Parameters)?;
    Ok(FixedMontyParams::new(modulus))
}

impl<const N: usize> Public<N> {
    pub(super) fn modulus(&self) -> &Uint<N> {
        self.params.modulus().as_ref()
    }

    /// `base^e`, and the power before the last multiplication.
    fn power_before_last(&self, base: &FixedMontyForm<N>) -> FixedMontyForm<N> {
        let mut power = *base;
        for bit in (1..self.exponent.ilog2()).rev() {
            power = power.square();
            if self.exponent >> bit & 1 == 1 {
                power = power.mul(base);
            }
        }
        power.square()
    }

    /// Takes a blinding factor out; `reveals` is in Montgomery's form.
    pub(super) fn reveal(&self, number: &Uint<N>, reveals: &Uint<N>) -> Zeroizing<Uint<N>> {
        let reveals = FixedMontyForm::from_montgomery(*reveals, &self.params);
        // Montgomery's product of a plain number and one in his form is plain.
        Zeroizing::new(FixedMontyForm::from_montgomery(*number, &self.params).mul(&reveals).to_montgomery())
    }

    /// Whether `root^e` is `number`.
    pub(super) fn gives(&self, root: &Uint<N>, number: &Uint<N>) -> bool {
        let power = self.power_before_last(&FixedMontyForm::new(root, &self.params));
        // The exponent is odd: the last multiplication is by the root, plain here, so that the product is.
        let power = power.mul(&FixedMontyForm::from_montgomery(*root, &self.params)).to_montgomery();
        power.ct_eq(number).into()
    }
}

impl<const N: usize> Blinding<N> {
    fn new(public: &Public<N>) -> Result<Blinding<N>, OpStatus> {
        let mut bytes = Zeroizing::new(vec![0; 8 * N]);
        let factor = loop {
            getrandom::fill(&mut bytes).map_err(|_| OpStatus::EngineFault)?;
            let factor = Zeroizing::new(Uint::from_be_slice(&bytes));
            // Moduli have their top bit set, so that every second try does.
            if *factor < *public.modulus() {
                break FixedMontyForm::new(&factor, &public.params);
            }
        };
        // Only multiples of a prime have none, or zero.
        let reveals = Option::from(factor.invert()).ok_or(OpStatus::EngineFault)?;
        Ok(Blinding { hides: public.power_before_last(&factor).mul(&factor), reveals, uses: 0 })
    }

    /// The factor's square takes its place.
    fn move_on(&mut self) {
        self.hides = self.hides.square();
        self.reveals = self.reveals.square();
        self.uses += 1;
    }
}

impl<const N: usize, const H: usize> PrivatePart<N, H> {
    /// The host's half, and the device's.
    fn new(numbers: &PrivateNumbers) -> Result<(PrivatePart<N, H>, Zeroizing<Vec<u8>>), KeyProblem> {
        let secret = |bytes: &[u8]| Zeroizing::new(number::<H>(bytes));
        let (p, q) = (secret(&numbers.p), secret(&numbers.q));
        let (p_params, q_params) = (Zeroizing::new(params(&p)?), Zeroizing::new(params(&q)?));
        let q_inverse = Zeroizing::new(FixedMontyForm::new(&secret(&numbers.q_inverse), &p_params));
        let mut device = Zeroizing::new(Vec::with_capacity(2 * device_len::<H>()));
        put_device_half(&mut device, &p_params, &secret(&numbers.dp));
        put_device_half(&mut device, &q_params, &secret(&numbers.dq));
        Ok((PrivatePart { p: p_params, q, q_inverse, blinding: Mutex::default() }, device))
    }

    /// Blinds a number: fresh factors, or the squares of those used before.
    pub(super) fn hide(&self, public: &Public<N>, number: &Uint<N>) -> Result<Hidden<N>, OpStatus> {
        let kept = self.waiting().pop();
        let mut blinding = match kept {
            Some(blinding) => blinding,
            None => Blinding::new(public)?,
        };
        let product = FixedMontyForm::from_montgomery(*number, &public.params).mul(&blinding.hides);
        let hidden = Hidden {
            hidden: Zeroizing::new(product.to_montgomery()),
            reveals: Zeroizing::new(blinding.reveals.to_montgomery()),
        };
        if blinding.uses < USES_MAX {
            blinding.move_on();
            self.waiting().push(blinding);
        }
        Ok(hidden)
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<Blinding<N>>> {
        // Factors are in it or not; nothing can be half done.
        self.blinding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number that is `of_p` modulo `p` and `of_q` modulo `q` (RFC 8017, 5.1.2, 2.b), whatever the device made of both.
    pub(super) fn combine(&self, of_p: &Uint<H>, of_q: &Uint<H>) -> Zeroizing<Uint<N>> {
        let form = |number: &Uint<H>| FixedMontyForm::from_montgomery(*self.below_p(number), &self.p);
        let quotient = form(of_p).sub(&form(of_q)).mul(&self.q_inverse);
        let (low, high) = quotient.as_montgomery().widening_mul(&self.q);
        let mut product = Zeroizing::new(Uint::<N>::ZERO);
        product.as_mut_limbs()[..H].copy_from_slice(low.as_limbs());
        product.as_mut_limbs()[H..].copy_from_slice(high.as_limbs());
        Zeroizing::new(product.wrapping_add(&of_q.resize::<N>()))
    }

    /// A number modulo `p`: both have as many bits, so that it is below twice as much.
    fn below_p(&self, number: &Uint<H>) -> Zeroizing<Uint<H>> {
        let p = self.p.modulus().as_ref();
        Zeroizing::new(number.wrapping_sub(p).ct_select(number, number.ct_lt(p)))
    }
}

/// Bytes of a prime's half of a key on the device; must agree with `KEY_HALF`.
const fn device_len<const H: usize>() -> usize {
    4 * (1 + 4 * limbs(H) + 2 * H)
}

/// What the kernel wants of a prime and its exponent, in the order of `kernels/public/rsa.cl`.
fn put_device_half<const H: usize>(device: &mut Vec<u8>, prime: &FixedMontyParams<H>, exponent: &Uint<H>) {
    let count = limbs(H);
    // The device's radix, 2^28 to as many limbs.
    let two = Zeroizing::new(FixedMontyForm::new(&Uint::from(2u32), prime));
    let radix = Zeroizing::new(two.pow_vartime(&Uint::<1>::from((LIMB_BITS * count) as u64)));
    let square = Zeroizing::new(radix.square());
    let cube = Zeroizing::new(square.mul(&radix));
    let inverse = prime.mod_neg_inv().0 as u32 & ((1 << LIMB_BITS) - 1);
    device.extend_from_slice(&inverse.to_le_bytes());
    put_limbs(device, prime.modulus().as_ref(), count);
    for number in [&radix, &square, &cube] {
        put_limbs(device, &Zeroizing::new(number.retrieve()), count);
    }
    device.extend_from_slice(Zeroizing::new(exponent.to_le_bytes()).as_ref());
}

/// A number as limbs of 28 bits, a word each.
fn put_limbs<const H: usize>(device: &mut Vec<u8>, number: &Uint<H>, count: usize) {
    let mut bytes = Zeroizing::new(vec![0; 8 * H + 8]);
    bytes[..8 * H].copy_from_slice(Zeroizing::new(number.to_le_bytes()).as_ref());
    for limb in 0..count {
        let bit = LIMB_BITS * limb;
        let mut word = [0; 8];
        let from = (bit / 8).min(8 * H);
        word.copy_from_slice(&bytes[from..from + 8]);
        let limb = if bit < 64 * H { u64::from_le_bytes(word) >> (bit % 8) & ((1 << LIMB_BITS) - 1) } else { 0 };
        device.extend_from_slice(&(limb as u32).to_le_bytes());
    }
}
