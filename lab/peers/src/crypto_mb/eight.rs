//! Eight requests and the call that does them: what is around the library's arithmetic (padding, hashing, nonces, ranges) and
//! the pointers that it takes.

use std::sync::Arc;

use ciphermill_contract::suite::acceptance::ed25519;
use ciphermill_contract::suite::{Agreement, Curve, Digest, RsaSize, SignPadding, Signature};
use ciphermill_contract::{Direction, Op, OpStatus, Reason, Span, Suite};
use openssl::rand::rand_priv_bytes;
use zeroize::{Zeroize, Zeroizing};

use super::keys::{CurveKey, CurveParams, Key, RsaKey, Words, curve_params, read};
use super::library::{self, Api, Inputs, LANES, Outputs};
use crate::openssl::public::{BAD_PUBLIC_VALUE, sha256, with_digest};

/// Bytes of the longest modulus.
const MODULUS_MAX: usize = RsaSize::Rsa4096.len();

/// Words of the longest field element.
const FIELD_WORDS: usize = Curve::P384.field_len() / 8;

/// What stands before a digest of SHA-256 (RFC 8017, 9.2, note 1).
const SHA256_PREFIX: [u8; 19] =
    [0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20];

/// Statuses of a lane, which the library puts together bit by bit.
const MISMATCH: u32 = 1;
const LOW_ORDER: u32 = 4;
const SIGNATURE: u32 = 8;

/// Is pointed at where a key of another kind lies, which `put` refuses.
static NOTHING: [u64; MODULUS_MAX / 8] = [0; MODULUS_MAX / 8];

/// A function of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    RsaSign(RsaSize),
    RsaVerify(RsaSize),
    X25519,
    Ed25519Sign,
    Ed25519Verify,
    EcdsaSign(Curve),
    EcdsaVerify(Curve),
    Ecdh(Curve),
}

impl Function {
    /// The function for a suite and direction, if there is one.
    pub(super) fn of(suite: Suite, direction: Direction) -> Option<Function> {
        let has_curve = |curve| matches!(curve, Curve::P256 | Curve::P384);
        Some(match (suite, direction) {
            (Suite::Sign(Signature::Rsa(size, SignPadding::Pkcs1, Digest::Sha256)), Direction::Encrypt) => {
                Function::RsaSign(size)
            }
            (Suite::Sign(Signature::Rsa(size, SignPadding::Pkcs1, Digest::Sha256)), Direction::Decrypt) => {
                Function::RsaVerify(size)
            }
            (Suite::Agree(Agreement::X25519), Direction::Encrypt) => Function::X25519,
            (Suite::Sign(Signature::Ed25519), Direction::Encrypt) => Function::Ed25519Sign,
            (Suite::Sign(Signature::Ed25519), Direction::Decrypt) => Function::Ed25519Verify,
            (Suite::Sign(Signature::Ecdsa(curve)), Direction::Encrypt) if has_curve(curve) => {
                Function::EcdsaSign(curve)
            }
            (Suite::Sign(Signature::Ecdsa(curve)), Direction::Decrypt) if has_curve(curve) => {
                Function::EcdsaVerify(curve)
            }
            (Suite::Agree(Agreement::Ecdh(curve)), Direction::Encrypt) if has_curve(curve) => Function::Ecdh(curve),
            _ => return None,
        })
    }

    /// Bytes that a call leaves of a lane: a signature, a shared secret; for verification what RSA recovered.
    fn output_len(self) -> usize {
        match self {
            Function::RsaSign(size) | Function::RsaVerify(size) => size.len(),
            Function::X25519 => 32,
            Function::Ed25519Sign => 64,
            Function::EcdsaSign(curve) => 2 * curve.order_len(),
            Function::Ecdh(curve) => curve.field_len(),
            Function::Ed25519Verify | Function::EcdsaVerify(_) => 0,
        }
    }

    /// Whether the key has the kind and the half that this needs.
    fn fits(self, key: &Key) -> bool {
        match (self, key) {
            (Function::RsaSign(size), Key::Rsa(key)) => key.modulus_bytes.len() == size.len() && key.private.is_some(),
            (Function::RsaVerify(size), Key::Rsa(key)) => key.modulus_bytes.len() == size.len(),
            (Function::EcdsaSign(_) | Function::Ecdh(_), Key::Curve(key)) => key.scalar.is_some(),
            (Function::EcdsaVerify(_), Key::Curve(_)) | (Function::X25519, Key::X25519(_)) => true,
            (Function::Ed25519Sign, Key::Ed25519 { seed, .. }) => seed.is_some(),
            (Function::Ed25519Verify, Key::Ed25519 { .. }) => true,
            _ => false,
        }
    }
}

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

/// Scratch memory that calls of one function may share.
pub(super) struct Scratch(Vec<Line>);

impl Scratch {
    pub(super) fn new(api: &Api, function: Function) -> Scratch {
        let len = match function {
            Function::RsaSign(size) | Function::RsaVerify(size) => api.rsa_scratch_len(size),
            _ => 0,
        };
        Scratch(vec![Line([0; 64]); len.div_ceil(64) + 1])
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|line| line.0.zeroize());
    }
}

/// One lane's answer.
#[repr(align(64))]
struct Output([u8; MODULUS_MAX]);

impl Drop for Output {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// One lane's request, in the library's form.
#[repr(align(64))]
struct Lane {
    /// What RSA has to recover.
    expected: [u8; MODULUS_MAX],
    /// Message, digest, padded digest, signature of RSA or public value.
    input: Vec<u8>,
    /// The halves of a signature that is verified.
    halves: [[u8; 8 * FIELD_WORDS]; 2],
    /// The point of a public value.
    point: [[u64; FIELD_WORDS]; 2],
    nonce: [u64; FIELD_WORDS],
    key: Option<Arc<Key>>,
}

impl Lane {
    fn new() -> Lane {
        Lane {
            expected: [0; MODULUS_MAX],
            input: Vec::new(),
            halves: [[0; 8 * FIELD_WORDS]; 2],
            point: [[0; FIELD_WORDS]; 2],
            nonce: [0; FIELD_WORDS],
            key: None,
        }
    }

    /// Takes a signature of two numbers.
    fn set_halves(&mut self, signature: &[u8]) {
        for (half, bytes) in self.halves.iter_mut().zip(signature.chunks_exact(signature.len() / 2)) {
            half[..bytes.len()].copy_from_slice(bytes);
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.nonce.zeroize();
    }
}

/// Up to eight requests.
pub(super) struct Eight {
    function: Function,
    params: Option<CurveParams>,
    lanes: Box<[Lane; LANES]>,
    /// Apart from the requests, which are read while these are written.
    outputs: Box<[Output; LANES]>,
    filled: usize,
}

impl Eight {
    /// No requests yet.
    pub(super) fn new(function: Function) -> Option<Eight> {
        let params = match function {
            Function::EcdsaSign(curve) | Function::EcdsaVerify(curve) | Function::Ecdh(curve) => {
                Some(curve_params(curve).ok()?)
            }
            _ => None,
        };
        let lanes = Box::new(std::array::from_fn(|_| Lane::new()));
        let outputs = Box::new(std::array::from_fn(|_| Output([0; MODULUS_MAX])));
        Some(Eight { function, params, lanes, outputs, filled: 0 })
    }

    pub(super) fn function(&self) -> Function {
        self.function
    }

    /// Requests so far.
    pub(super) fn filled(&self) -> usize {
        self.filled
    }

    pub(super) fn is_full(&self) -> bool {
        self.filled == LANES
    }

    /// Forgets the requests.
    pub(super) fn clear(&mut self) {
        self.filled = 0;
    }

    /// Takes a request: hashes, pads and converts it. `tag` is the signature where one is verified.
    ///
    /// # Errors
    /// What became of an operation that needs no call, or a ninth one.
    pub(super) fn put(&mut self, key: &Arc<Key>, input: &[u8], tag: &[u8]) -> Result<(), OpStatus> {
        let function = self.function;
        if !function.fits(key) {
            return Err(OpStatus::Refused(Reason::KeyUnsuitable));
        }
        let lane = self.lanes.get_mut(self.filled).ok_or(OpStatus::EngineFault)?;
        lane.input.clear();
        match function {
            Function::RsaSign(size) => {
                lane.input.resize(size.len(), 0);
                pad(input, &mut lane.input);
            }
            Function::RsaVerify(size) => {
                let Key::Rsa(RsaKey { modulus_bytes, .. }) = &**key else { return Err(OpStatus::EngineFault) };
                // RFC 8017, 8.2.2: a representative below the modulus, as long as it.
                if tag.len() != size.len() || tag >= modulus_bytes {
                    return Err(OpStatus::AuthFailed);
                }
                lane.input.extend_from_slice(tag);
                pad(input, &mut lane.expected[..size.len()]);
            }
            Function::X25519 if input.len() != 32 => return Err(BAD_PUBLIC_VALUE),
            Function::X25519 | Function::Ed25519Sign => lane.input.extend_from_slice(input),
            Function::Ed25519Verify => {
                if !tag.try_into().is_ok_and(ed25519::is_strict) {
                    return Err(OpStatus::AuthFailed);
                }
                lane.set_halves(tag);
                lane.input.extend_from_slice(input);
            }
            Function::EcdsaSign(curve) => digest(curve, input, self.params.as_ref(), &mut lane.input),
            Function::EcdsaVerify(curve) => {
                if tag.len() != 2 * curve.order_len() {
                    return Err(OpStatus::AuthFailed);
                }
                lane.set_halves(tag);
                digest(curve, input, self.params.as_ref(), &mut lane.input);
            }
            Function::Ecdh(curve) => point(curve, input, self.params.as_ref(), &mut lane.point)?,
        }
        // The same key mostly, which is looked at before its count of owners is touched.
        if lane.key.as_ref().is_none_or(|old| !Arc::ptr_eq(old, key)) {
            lane.key = Some(Arc::clone(key));
        }
        self.filled += 1;
        Ok(())
    }

    /// Draws the nonces of ECDSA that the next call takes; whether that went well. Nothing for other functions.
    pub(super) fn draw(&mut self) -> bool {
        let (Function::EcdsaSign(_), Some(params)) = (self.function, &self.params) else { return true };
        let len = params.order.len();
        let mut drawn = Zeroizing::new([0; LANES * 8 * FIELD_WORDS]);
        let drawn = &mut drawn[..LANES * len];
        if rand_priv_bytes(drawn).is_err() {
            return false;
        }
        for (lane, nonce) in self.lanes.iter_mut().zip(drawn.chunks_exact_mut(len)) {
            // From one to the order less one, each as likely (FIPS 186-5, A.3.2).
            while *nonce >= *params.order || nonce.iter().all(|byte| *byte == 0) {
                if rand_priv_bytes(nonce).is_err() {
                    return false;
                }
            }
            read(nonce, &mut lane.nonce);
        }
        true
    }

    /// Does the requests; the lanes' statuses are for [`Eight::status`]. Lanes without a request do the first one's.
    pub(super) fn call(&mut self, api: &Api, scratch: &mut Scratch) -> u32 {
        let scratch = scratch.0.as_mut_ptr().cast::<u8>();
        let outputs = self.outputs(0);
        let inputs: Inputs<u8> = self.each(|lane| lane.input.as_ptr());
        match self.function {
            Function::RsaSign(size) | Function::RsaVerify(size) => self.rsa(api, size, (&inputs, &outputs), scratch),
            Function::X25519 => {
                let keys = self.each(|lane| match lane.key.as_deref() {
                    Some(Key::X25519(scalar)) => scalar.as_ptr(),
                    _ => NOTHING.as_ptr().cast(),
                });
                // SAFETY: outputs, keys and inputs have 32 bytes each (`put`).
                unsafe { (api.x25519)(outputs.as_ptr(), keys.as_ptr(), inputs.as_ptr()) }
            }
            Function::Ed25519Sign | Function::Ed25519Verify => self.edwards(api, &inputs, &outputs),
            Function::EcdsaSign(curve) | Function::EcdsaVerify(curve) | Function::Ecdh(curve) => {
                self.curve(api, curve, (&inputs, &outputs), scratch)
            }
        }
    }

    fn rsa(&self, api: &Api, size: RsaSize, (from, to): (&Inputs<u8>, &Outputs), scratch: *mut u8) -> u32 {
        let (from, to, bits) = (from.as_ptr(), to.as_ptr(), i32::try_from(size.bits()).unwrap_or(0));
        let of = |part: fn(&RsaKey) -> Option<&Words>| {
            self.each(|lane| match lane.key.as_deref() {
                Some(Key::Rsa(key)) => part(key).map_or(NOTHING.as_ptr(), |words| words.as_ptr()),
                _ => NOTHING.as_ptr(),
            })
        };
        let modulus = of(|key| Some(&key.modulus));
        if let Function::RsaSign(_) = self.function {
            let [p, q] = [of(|key| Some(&key.private.as_ref()?.p)), of(|key| Some(&key.private.as_ref()?.q))];
            let [dp, dq] = [of(|key| Some(&key.private.as_ref()?.dp)), of(|key| Some(&key.private.as_ref()?.dq))];
            let inverse = of(|key| Some(&key.private.as_ref()?.inverse));
            // SAFETY: inputs and outputs have as many bytes as the modulus, the keys' parts half as many; the scratch memory
            // was made for this function and size.
            return unsafe {
                (api.rsa_crt)(
                    from,
                    to,
                    p.as_ptr(),
                    q.as_ptr(),
                    dp.as_ptr(),
                    dq.as_ptr(),
                    inverse.as_ptr(),
                    bits,
                    Api::ANY_METHOD,
                    scratch,
                )
            };
        }
        let usual = |lane: &Lane| matches!(lane.key.as_deref(), Some(Key::Rsa(key)) if key.exponent.is_none());
        if self.lanes[..self.filled].iter().all(usual) {
            // SAFETY: as above.
            return unsafe { (api.rsa_public)(from, to, modulus.as_ptr(), bits, Api::ANY_METHOD, scratch) };
        }
        // The library has no function for other public exponents: the one for private ones, which takes any.
        let mut f4 = NOTHING;
        f4[0] = 65537;
        let exponents: Inputs<u64> = self.each(|lane| match lane.key.as_deref() {
            Some(Key::Rsa(RsaKey { exponent: Some(exponent), .. })) => exponent.as_ptr(),
            _ => f4.as_ptr(),
        });
        // SAFETY: as above; exponents are as long as the modulus.
        unsafe { (api.rsa_private)(from, to, exponents.as_ptr(), modulus.as_ptr(), bits, Api::ANY_METHOD, scratch) }
    }

    fn edwards(&mut self, api: &Api, messages: &Inputs<u8>, outputs: &Outputs) -> u32 {
        let lens = self.each(|lane| u32::try_from(lane.input.len()).unwrap_or(0));
        let public = self.each(|lane| match lane.key.as_deref() {
            Some(Key::Ed25519 { public, .. }) => public.as_ptr(),
            _ => NOTHING.as_ptr().cast(),
        });
        if self.function == Function::Ed25519Verify {
            let [r, s] = [0, 1].map(|half| self.each(|lane| lane.halves[half].as_ptr()));
            // SAFETY: the halves and the keys have 32 bytes, the messages as many as `lens` says.
            return unsafe {
                (api.ed25519_verify)(r.as_ptr(), s.as_ptr(), messages.as_ptr(), lens.as_ptr(), public.as_ptr())
            };
        }
        let s = self.outputs(32);
        let seeds = self.each(|lane| match lane.key.as_deref() {
            Some(Key::Ed25519 { seed: Some(seed), .. }) => seed.as_ptr(),
            _ => NOTHING.as_ptr().cast(),
        });
        // SAFETY: as above; outputs have 64 bytes, of which `s` begins at the second half.
        unsafe {
            (api.ed25519_sign)(
                outputs.as_ptr(),
                s.as_ptr(),
                messages.as_ptr(),
                lens.as_ptr(),
                seeds.as_ptr(),
                public.as_ptr(),
            )
        }
    }

    fn curve(&mut self, api: &Api, curve: Curve, (digests, out): (&Inputs<u8>, &Outputs), scratch: *mut u8) -> u32 {
        let functions: &library::Curve = if curve == Curve::P384 { &api.p384 } else { &api.p256 };
        let of = |eight: &Eight, part: fn(&CurveKey) -> Option<&Words>| {
            eight.each(|lane| match lane.key.as_deref() {
                Some(Key::Curve(key)) => part(key).map_or(NOTHING.as_ptr(), |words| words.as_ptr()),
                _ => NOTHING.as_ptr(),
            })
        };
        let scalars = of(self, |key| key.scalar.as_ref());
        // SAFETY, of all three: numbers have the words, digests and signatures' halves the bytes of the curve (`put`); points are
        // affine. No function of a curve uses the scratch memory so far; what there is may be written.
        match self.function {
            Function::Ecdh(_) => {
                let [x, y] = [0, 1].map(|axis| self.each(|lane| lane.point[axis].as_ptr()));
                let (x, y) = (x.as_ptr(), y.as_ptr());
                // SAFETY: see above.
                unsafe { (functions.ecdh)(out.as_ptr(), scalars.as_ptr(), x, y, std::ptr::null(), scratch) }
            }
            Function::EcdsaVerify(_) => {
                let [r, s] = [0, 1].map(|half| self.each(|lane| lane.halves[half].as_ptr()));
                let [x, y] = [of(self, |key| Some(&key.x)), of(self, |key| Some(&key.y))];
                let (x, y) = (x.as_ptr(), y.as_ptr());
                // SAFETY: see above.
                unsafe { (functions.verify)(r.as_ptr(), s.as_ptr(), digests.as_ptr(), x, y, std::ptr::null(), scratch) }
            }
            _ => {
                let s = self.outputs(curve.order_len());
                let nonces = self.each(|lane| lane.nonce.as_ptr());
                let nonces = nonces.as_ptr();
                // SAFETY: see above.
                unsafe {
                    (functions.sign)(out.as_ptr(), s.as_ptr(), digests.as_ptr(), nonces, scalars.as_ptr(), scratch)
                }
            }
        }
    }

    /// What became of a lane's request. RSA's recovered digest is compared here.
    pub(super) fn status(&self, statuses: u32, lane: usize) -> OpStatus {
        let Some(request) = self.lanes.get(lane).filter(|_| lane < self.filled) else { return OpStatus::EngineFault };
        let status = statuses >> (4 * lane) & 0xf;
        let len = self.function.output_len();
        match self.function {
            Function::RsaVerify(_) if status == 0 => match self.outputs[lane].0[..len] == request.expected[..len] {
                true => OpStatus::Done,
                false => OpStatus::AuthFailed,
            },
            _ if status == 0 => OpStatus::Done,
            Function::X25519 if status == LOW_ORDER => BAD_PUBLIC_VALUE,
            Function::Ecdh(_) if status == MISMATCH => BAD_PUBLIC_VALUE,
            Function::EcdsaVerify(_) | Function::Ed25519Verify if status & !(MISMATCH | SIGNATURE) == 0 => {
                OpStatus::AuthFailed
            }
            _ => OpStatus::EngineFault,
        }
    }

    /// The signature or the shared secret of a lane.
    pub(super) fn output(&self, lane: usize) -> &[u8] {
        let len = match self.function {
            Function::RsaVerify(_) => 0,
            function => function.output_len(),
        };
        self.outputs.get(lane).map_or(&[], |output| &output.0[..len])
    }

    /// Something of each lane's request, of the first one's where a lane has none.
    fn each<T>(&self, of: impl Fn(&Lane) -> T) -> [T; LANES] {
        std::array::from_fn(|lane| of(&self.lanes[if lane < self.filled { lane } else { 0 }]))
    }

    /// Where outputs lie, from a byte of them on.
    fn outputs(&mut self, from: usize) -> Outputs {
        let outputs: &mut [Output; LANES] = &mut self.outputs;
        outputs.each_mut().map(|output| output.0[from..].as_mut_ptr())
    }
}

/// Writes what became of an operation: a signature where its tag lies, a shared secret at its output, which is zeroed where
/// there is none.
pub(super) fn settle(suite: Suite, op: &mut Op, arena: &mut [u8], status: OpStatus, output: &[u8]) {
    let is_signature = matches!(suite, Suite::Sign(_));
    let room = match is_signature {
        true => op.tag_span().range(),
        false => Span::new(op.output, suite.output_len(Direction::Encrypt, 0, 0) as u32).range(),
    };
    let room = arena.get_mut(room).unwrap_or_default();
    (op.status, op.output_len) = (status, 0);
    if !status.is_done() {
        if !is_signature {
            room.fill(0);
        }
        return;
    }
    let Some(place) = room.get_mut(..output.len()) else {
        op.status = OpStatus::EngineFault;
        return;
    };
    place.copy_from_slice(output);
    if !is_signature {
        op.output_len = output.len() as u32;
    } else if !output.is_empty() {
        op.tag_len = output.len() as u16;
    }
}

/// EMSA-PKCS1-v1_5 with SHA-256 (RFC 8017, 9.2), as long as the modulus.
fn pad(message: &[u8], out: &mut [u8]) {
    let digest = sha256(message);
    let (padding, end) = out.split_at_mut(out.len() - SHA256_PREFIX.len() - digest.len());
    padding.fill(0xff);
    padding[0] = 0;
    padding[1] = 1;
    if let Some(last) = padding.last_mut() {
        *last = 0;
    }
    end[..SHA256_PREFIX.len()].copy_from_slice(&SHA256_PREFIX);
    end[SHA256_PREFIX.len()..].copy_from_slice(&digest);
}

/// The digest that the curve signs, below its order: the library takes no other.
fn digest(curve: Curve, message: &[u8], params: Option<&CurveParams>, out: &mut Vec<u8>) {
    with_digest(curve, message, |digest| out.extend_from_slice(digest));
    let Some(order) = params.map(|params| &params.order).filter(|order| *out >= **order) else { return };
    // Digests are as long as the order, which has its top bit set: one subtraction is enough.
    let mut borrow = false;
    for (byte, of_order) in out.iter_mut().zip(order).rev() {
        let (difference, first) = byte.overflowing_sub(*of_order);
        let (difference, second) = difference.overflowing_sub(u8::from(borrow));
        (*byte, borrow) = (difference, first || second);
    }
}

/// An uncompressed point (SEC 1, 2.3.4). Whether it is on the curve the library finds out.
fn point(
    curve: Curve,
    input: &[u8],
    params: Option<&CurveParams>,
    out: &mut [[u64; FIELD_WORDS]; 2],
) -> Result<(), OpStatus> {
    let Some((&4, coordinates)) = input.split_first() else { return Err(BAD_PUBLIC_VALUE) };
    let (x, y) = coordinates.split_at_checked(curve.field_len()).ok_or(BAD_PUBLIC_VALUE)?;
    for (axis, bytes) in out.iter_mut().zip([x, y]) {
        if params.is_none_or(|params| bytes.len() != params.prime.len() || bytes >= &params.prime[..]) {
            return Err(BAD_PUBLIC_VALUE);
        }
        read(bytes, axis);
    }
    Ok(())
}
