//! AWS-LC's block ciphers as their users call them at best: the schedule kept for each key, one call of the plain function
//! for each message, which costs less than a context of `EVP_CIPHER`.

use std::mem::MaybeUninit;

use aws_lc_sys as sys;
use ciphermill_contract::suite::{AesSize, BlockCipher, Mode};
use ciphermill_contract::{Direction, Op, Suite};

use crate::native::{NativeLoop, Task, all_done};

/// The schedules of a key.
enum Schedule {
    Aes(Box<sys::AES_KEY>),
    Des(Box<sys::DES_key_schedule>),
    TripleDes(Box<[sys::DES_key_schedule; 3]>),
}

/// The loop over the operations of a task, all of whose spans were found within the arena.
struct Ciphers {
    mode: Mode,
    direction: Direction,
    schedules: Vec<Schedule>,
    key_of: Vec<usize>,
    ops: Vec<Op>,
    arena: Vec<u8>,
}

/// The loop, for AES in CBC and CTR, DES and 3DES in CBC.
pub(super) fn open(task: &Task<'_>) -> Option<Box<dyn NativeLoop>> {
    let Suite::Cipher(cipher, mode) = task.suite else { return None };
    let block = match (cipher, mode) {
        (BlockCipher::Aes(AesSize::Aes128 | AesSize::Aes192 | AesSize::Aes256), Mode::Cbc | Mode::Ctr) => 16,
        (BlockCipher::Des | BlockCipher::TripleDes, Mode::Cbc) => 8,
        _ => return None,
    };
    if !task.is_sound_apart(0) || task.ops.iter().any(|op| usize::from(op.iv_len) != block) {
        return None;
    }
    // CTR encrypts its counters both ways.
    let enciphers = task.direction == Direction::Encrypt || mode == Mode::Ctr;
    let schedules: Option<Vec<Schedule>> = task.keys.iter().map(|key| schedule(cipher, key, enciphers)).collect();
    let (ops, arena, key_of) = (task.ops.to_vec(), task.arena.to_vec(), task.key_of.to_vec());
    Some(Box::new(Ciphers { mode, direction: task.direction, schedules: schedules?, key_of, ops, arena }))
}

fn schedule(cipher: BlockCipher, key: &[u8], enciphers: bool) -> Option<Schedule> {
    if let BlockCipher::Aes(_) = cipher {
        let bits = u32::try_from(8 * key.len()).ok()?;
        let mut made = Box::new(MaybeUninit::<sys::AES_KEY>::zeroed());
        // SAFETY: the key has as many bits as is said, and zero is a value of every field.
        unsafe {
            let made_for = match enciphers {
                true => sys::AES_set_encrypt_key(key.as_ptr(), bits, made.as_mut_ptr()),
                false => sys::AES_set_decrypt_key(key.as_ptr(), bits, made.as_mut_ptr()),
            };
            return (made_for == 0).then(|| Schedule::Aes(made.assume_init()));
        }
    }
    let part = |part: &[u8]| {
        let bytes = sys::DES_cblock { bytes: part.try_into().ok()? };
        let mut made = MaybeUninit::<sys::DES_key_schedule>::zeroed();
        // SAFETY: a key of eight bytes; zero is a value of every field.
        unsafe {
            sys::DES_set_key(&bytes, made.as_mut_ptr());
            Some(made.assume_init())
        }
    };
    match (cipher, key.len()) {
        (BlockCipher::Des, 8) => Some(Schedule::Des(Box::new(part(key)?))),
        (BlockCipher::TripleDes, 24) => {
            Some(Schedule::TripleDes(Box::new([part(&key[..8])?, part(&key[8..16])?, part(&key[16..])?])))
        }
        // With two keys the third is the first.
        (BlockCipher::TripleDes, 16) => {
            Some(Schedule::TripleDes(Box::new([part(&key[..8])?, part(&key[8..])?, part(&key[..8])?])))
        }
        _ => None,
    }
}

impl Ciphers {
    /// # Safety
    /// The operation lies within the arena that `base` is the start of, with its input apart from its output.
    #[inline]
    unsafe fn one(&self, schedule: &Schedule, op: &Op, base: *mut u8) {
        let (len, enciphers) = (op.input.len as usize, i32::from(self.direction == Direction::Encrypt));
        // SAFETY: the caller's promise; schedules are only read, and IVs written in copies.
        unsafe {
            let (input, output) = (base.add(op.input.offset as usize), base.add(op.output as usize));
            let mut iv = [0; 16];
            iv.copy_from_slice(&op.iv[..16]);
            let mut iv_of_des = sys::DES_cblock { bytes: [iv[0], iv[1], iv[2], iv[3], iv[4], iv[5], iv[6], iv[7]] };
            match schedule {
                Schedule::Aes(key) if self.mode == Mode::Ctr => {
                    let (mut stream, mut used) = ([0; 16], 0);
                    sys::AES_ctr128_encrypt(
                        input,
                        output,
                        len,
                        &**key,
                        iv.as_mut_ptr(),
                        stream.as_mut_ptr(),
                        &mut used,
                    );
                }
                Schedule::Aes(key) => sys::AES_cbc_encrypt(input, output, len, &**key, iv.as_mut_ptr(), enciphers),
                Schedule::Des(key) => sys::DES_ncbc_encrypt(input, output, len, &**key, &mut iv_of_des, enciphers),
                Schedule::TripleDes(keys) => {
                    let [a, b, c] = &**keys;
                    sys::DES_ede3_cbc_encrypt(input, output, len, a, b, c, &mut iv_of_des, enciphers);
                }
            }
        }
    }
}

impl NativeLoop for Ciphers {
    fn ways(&self) -> Vec<String> {
        vec!["plain functions, out of place".to_owned()]
    }

    fn restart(&mut self) -> bool {
        true
    }

    fn run(&mut self, _way: usize) -> bool {
        let base = self.arena.as_mut_ptr();
        for (op, key) in self.ops.iter().zip(&self.key_of) {
            // SAFETY: `open` found every operation within an arena of this length, and its places apart; no reference to the
            // arena lives meanwhile.
            unsafe { self.one(&self.schedules[*key], op, base) };
        }
        true
    }

    fn answers(&mut self) -> (Vec<Op>, Vec<u8>) {
        (all_done(&self.ops), self.arena.clone())
    }
}
