//! Packets that no honest sender makes, with an ICV that is right: sealed by the primitives' crates, without anything of ours.

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes128Gcm, Nonce};
use cbc::cipher::{BlockModeEncrypt, KeyIvInit};
use ciphermill_esp::Sequence;
use hmac::{Hmac, Mac};
use sha1::Sha1;

use crate::ends::{Shape, checksum};

/// A message's HMAC-SHA1, whole.
pub(crate) fn hmac_sha1(key: &[u8], message: &[u8]) -> [u8; 20] {
    let mut mac = <Hmac<Sha1> as KeyInit>::new_from_slice(key).expect("any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// An IPv4 header before what is ESP.
pub(crate) fn envelope(esp: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + esp.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 50, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    let checksum = checksum(&packet).to_be_bytes();
    packet[10..12].copy_from_slice(&checksum);
    packet.extend(esp);
    packet
}

/// What stands behind an inner packet: right padding to a multiple of `alignment`, and the next header.
pub(crate) fn with_trailer(inner: &[u8], alignment: usize, next_header: u8) -> Vec<u8> {
    let mut plain = inner.to_vec();
    let padding = (alignment - (inner.len() + 2) % alignment) % alignment;
    plain.extend((1..).take(padding));
    plain.extend([padding as u8, next_header]);
    plain
}

/// A packet of a shape's association around these bytes, trailer and all: AES-128-GCM, AES-128-CBC or NULL with HMAC-SHA1.
pub(crate) fn forge(shape: &Shape, number: u64, plain: &[u8]) -> Vec<u8> {
    let (keys, spi) = (shape.keys(), shape.parameters().spi.to_be_bytes());
    let (high, low) = (((number >> 32) as u32).to_be_bytes(), (number as u32).to_be_bytes());
    let is_extended = shape.sequence == Sequence::Extended;
    let mut esp = [spi, low].concat();
    match shape.transform.to_string().as_str() {
        "aes-128-gcm" => {
            let iv = number.to_be_bytes();
            let nonce: [u8; 12] = [&keys.salt[..], &iv].concat().try_into().expect("twelve bytes");
            let aad = if is_extended { [spi, high, low].concat() } else { esp.clone() };
            let cipher = Aes128Gcm::new_from_slice(&keys.key).expect("a key");
            esp.extend(iv);
            esp.extend(cipher.encrypt(&Nonce::from(nonce), Payload { msg: plain, aad: &aad }).expect("seals"));
        }
        "aes-128-cbc+hmac-sha1-96" => {
            let iv = [0x77; 16];
            let mut blocks: Vec<_> = plain.as_chunks::<16>().0.iter().map(|block| (*block).into()).collect();
            assert_eq!(blocks.len() * 16, plain.len(), "whole blocks");
            let key: [u8; 16] = *keys.key.first_chunk().expect("a key");
            cbc::Encryptor::<aes::Aes128>::new(&key.into(), &iv.into()).encrypt_blocks(&mut blocks);
            esp.extend(iv);
            blocks.iter().for_each(|block| esp.extend_from_slice(block));
            with_mac(&mut esp, &keys.key[16..], is_extended.then_some(high));
        }
        "null+hmac-sha1-96" => {
            esp.extend(plain);
            with_mac(&mut esp, &keys.key, is_extended.then_some(high));
        }
        other => panic!("{other} is not forged"),
    }
    envelope(&esp)
}

fn with_mac(esp: &mut Vec<u8>, key: &[u8], high: Option<[u8; 4]>) {
    let covered = [&esp[..], &high.map_or(Vec::new(), Vec::from)].concat();
    esp.extend(&hmac_sha1(key, &covered)[..12]);
}
