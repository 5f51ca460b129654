//! The legacy curves by the parameters of SEC 2 (Certicom Research): secp160r1 of version 1.0 (2000), those over binary fields of
//! version 2.0 (2010). K-163 and B-163 of FIPS 186-4, D.1.3, are sect163k1 and sect163r2; K-233 is sect233k1, B-233 sect233r1,
//! and so on.

use ciphermill_contract::suite::Curve;

/// A field of so many elements, or of polynomials.
#[derive(Clone, Copy, Debug)]
pub enum Field {
    /// Modulo this prime, in hexadecimal.
    Prime(&'static str),
    /// Polynomials over two elements modulo `t^degree + t^middle… + 1`. A number's bit `i` is the coefficient of `t^i`.
    Binary {
        /// Bits of an element.
        degree: usize,
        /// The exponents between, one or three.
        middle: &'static [usize],
    },
}

/// A curve `y² = x³ + a x + b` over a prime field, or `y² + x y = x³ + a x² + b` over a binary one. Numbers are in hexadecimal,
/// without zeros in front.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// The field.
    pub field: Field,
    /// The curve's `a`.
    pub a: &'static str,
    /// The curve's `b`.
    pub b: &'static str,
    /// The generator's `x`.
    pub x: &'static str,
    /// The generator's `y`.
    pub y: &'static str,
    /// The generator's order, a prime.
    pub order: &'static str,
    /// Points of the curve for each of the generator's multiples. The group of points is cyclic on all of these curves.
    pub cofactor: u32,
}

/// The parameters of a legacy curve; `None` for the others, whose crates have them.
pub const fn parameters(curve: Curve) -> Option<&'static Parameters> {
    Some(match curve {
        Curve::P224 | Curve::P256 | Curve::P384 | Curve::P521 | Curve::Secp256k1 => return None,
        Curve::BrainpoolP256r1 | Curve::BrainpoolP384r1 => return None,
        Curve::Secp160r1 => &SECP160R1,
        Curve::Sect163k1 => &SECT163K1,
        Curve::Sect163r1 => &SECT163R1,
        Curve::Sect163r2 => &SECT163R2,
        Curve::Sect233k1 => &SECT233K1,
        Curve::Sect233r1 => &SECT233R1,
        Curve::Sect283k1 => &SECT283K1,
        Curve::Sect283r1 => &SECT283R1,
        Curve::Sect409k1 => &SECT409K1,
        Curve::Sect409r1 => &SECT409R1,
        Curve::Sect571k1 => &SECT571K1,
        Curve::Sect571r1 => &SECT571R1,
    })
}

/// Words of a number in hexadecimal, the least significant first.
///
/// # Panics
/// When it has more digits than the words hold.
pub const fn words<const W: usize>(hex: &str) -> [u64; W] {
    let digits = hex.as_bytes();
    let mut words = [0; W];
    let mut at = 0;
    while at < digits.len() {
        let digit = digits[digits.len() - 1 - at];
        let value = if digit.is_ascii_digit() { digit - b'0' } else { digit - b'a' + 10 };
        words[at / 16] |= (value as u64) << (4 * (at % 16));
        at += 1;
    }
    words
}

/// secp160r1 (SEC 2, 2.4.2 of version 1).
pub const SECP160R1: Parameters = Parameters {
    field: Field::Prime("ffffffffffffffffffffffffffffffff7fffffff"),
    a: "ffffffffffffffffffffffffffffffff7ffffffc",
    b: "1c97befc54bd7a8b65acf89f81d4d4adc565fa45",
    x: "4a96b5688ef573284664698968c38bb913cbfc82",
    y: "23a628553168947d59dcc912042351377ac5fb32",
    order: "100000000000000000001f4c8f927aed3ca752257",
    cofactor: 1,
};

/// sect163k1 (SEC 2, 3.2.1).
pub const SECT163K1: Parameters = Parameters {
    field: Field::Binary { degree: 163, middle: &[3, 6, 7] },
    a: "1",
    b: "1",
    x: "2fe13c0537bbc11acaa07d793de4e6d5e5c94eee8",
    y: "289070fb05d38ff58321f2e800536d538ccdaa3d9",
    order: "4000000000000000000020108a2e0cc0d99f8a5ef",
    cofactor: 2,
};

/// sect163r1 (SEC 2, 3.2.2).
pub const SECT163R1: Parameters = Parameters {
    field: Field::Binary { degree: 163, middle: &[3, 6, 7] },
    a: "7b6882caaefa84f9554ff8428bd88e246d2782ae2",
    b: "713612dcddcb40aab946bda29ca91f73af958afd9",
    x: "369979697ab43897789566789567f787a7876a654",
    y: "435edb42efafb2989d51fefce3c80988f41ff883",
    order: "3ffffffffffffffffffff48aab689c29ca710279b",
    cofactor: 2,
};

/// sect163r2 (SEC 2, 3.2.3).
pub const SECT163R2: Parameters = Parameters {
    field: Field::Binary { degree: 163, middle: &[3, 6, 7] },
    a: "1",
    b: "20a601907b8c953ca1481eb10512f78744a3205fd",
    x: "3f0eba16286a2d57ea0991168d4994637e8343e36",
    y: "d51fbc6c71a0094fa2cdd545b11c5c0c797324f1",
    order: "40000000000000000000292fe77e70c12a4234c33",
    cofactor: 2,
};

/// sect233k1 (SEC 2, 3.3.1).
pub const SECT233K1: Parameters = Parameters {
    field: Field::Binary { degree: 233, middle: &[74] },
    a: "0",
    b: "1",
    x: "17232ba853a7e731af129f22ff4149563a419c26bf50a4c9d6eefad6126",
    y: "1db537dece819b7f70f555a67c427a8cd9bf18aeb9b56e0c11056fae6a3",
    order: "8000000000000000000000000000069d5bb915bcd46efb1ad5f173abdf",
    cofactor: 4,
};

/// sect233r1 (SEC 2, 3.3.2).
pub const SECT233R1: Parameters = Parameters {
    field: Field::Binary { degree: 233, middle: &[74] },
    a: "1",
    b: "66647ede6c332c7f8c0923bb58213b333b20e9ce4281fe115f7d8f90ad",
    x: "fac9dfcbac8313bb2139f1bb755fef65bc391f8b36f8f8eb7371fd558b",
    y: "1006a08a41903350678e58528bebf8a0beff867a7ca36716f7e01f81052",
    order: "1000000000000000000000000000013e974e72f8a6922031d2603cfe0d7",
    cofactor: 2,
};

/// sect283k1 (SEC 2, 3.5.1).
pub const SECT283K1: Parameters = Parameters {
    field: Field::Binary { degree: 283, middle: &[5, 7, 12] },
    a: "0",
    b: "1",
    x: concat!("503213f78ca44883f1a3b8162f188e553cd265f23c1567a16876913b0c2ac245", "8492836",),
    y: concat!("1ccda380f1c9e318d90f95d07e5426fe87e45c0e8184698e45962364e3411617", "7dd2259",),
    order: concat!("1ffffffffffffffffffffffffffffffffffe9ae2ed07577265dff7f94451e061", "e163c61",),
    cofactor: 4,
};

/// sect283r1 (SEC 2, 3.5.2).
pub const SECT283R1: Parameters = Parameters {
    field: Field::Binary { degree: 283, middle: &[5, 7, 12] },
    a: "1",
    b: concat!("27b680ac8b8596da5a4af8a19a0303fca97fd7645309fa2a581485af6263e313", "b79a2f5",),
    x: concat!("5f939258db7dd90e1934f8c70b0dfec2eed25b8557eac9c80e2e198f8cdbecd8", "6b12053",),
    y: concat!("3676854fe24141cb98fe6d4b20d02b4516ff702350eddb0826779c813f0df45b", "e8112f4",),
    order: concat!("3ffffffffffffffffffffffffffffffffffef90399660fc938a90165b042a7ce", "fadb307",),
    cofactor: 2,
};

/// sect409k1 (SEC 2, 3.6.1).
pub const SECT409K1: Parameters = Parameters {
    field: Field::Binary { degree: 409, middle: &[87] },
    a: "0",
    b: "1",
    x: concat!(
        "60f05f658f49c1ad3ab1890f7184210efd0987e307c84c27accfb8f9f67cc2c4",
        "60189eb5aaaa62ee222eb1b35540cfe9023746",
    ),
    y: concat!(
        "1e369050b7c4e42acba1dacbf04299c3460782f918ea427e6325165e9ea10e3d",
        "a5f6c42e9c55215aa9ca27a5863ec48d8e0286b",
    ),
    order: concat!(
        "7ffffffffffffffffffffffffffffffffffffffffffffffffffe5f83b2d4ea20",
        "400ec4557d5ed3e3e7ca5b4b5c83b8e01e5fcf",
    ),
    cofactor: 4,
};

/// sect409r1 (SEC 2, 3.6.2).
pub const SECT409R1: Parameters = Parameters {
    field: Field::Binary { degree: 409, middle: &[87] },
    a: "1",
    b: concat!(
        "21a5c2c8ee9feb5c4b9a753b7b476b7fd6422ef1f3dd674761fa99d6ac27c8a9",
        "a197b272822f6cd57a55aa4f50ae317b13545f",
    ),
    x: concat!(
        "15d4860d088ddb3496b0c6064756260441cde4af1771d4db01ffe5b34e59703d",
        "c255a868a1180515603aeab60794e54bb7996a7",
    ),
    y: concat!(
        "61b1cfab6be5f32bbfa78324ed106a7636b9c5a7bd198d0158aa4f5488d08f38",
        "514f1fdf4b4f40d2181b3681c364ba0273c706",
    ),
    order: concat!(
        "10000000000000000000000000000000000000000000000000001e2aad6a612f",
        "33307be5fa47c3c9e052f838164cd37d9a21173",
    ),
    cofactor: 2,
};

/// sect571k1 (SEC 2, 3.7.1).
pub const SECT571K1: Parameters = Parameters {
    field: Field::Binary { degree: 571, middle: &[2, 5, 10] },
    a: "0",
    b: "1",
    x: concat!(
        "26eb7a859923fbc82189631f8103fe4ac9ca2970012d5d46024804801841ca44",
        "370958493b205e647da304db4ceb08cbbd1ba39494776fb988b47174dca88c7e",
        "2945283a01c8972",
    ),
    y: concat!(
        "349dc807f4fbf374f4aeade3bca95314dd58cec9f307a54ffc61efc006d8a2c9",
        "d4979c0ac44aea74fbebbb9f772aedcb620b01a7ba7af1b320430c8591984f60",
        "1cd4c143ef1c7a3",
    ),
    order: concat!(
        "2000000000000000000000000000000000000000000000000000000000000000",
        "0000000131850e1f19a63e4b391a8db917f4138b630d84be5d639381e91deb45",
        "cfe778f637c1001",
    ),
    cofactor: 4,
};

/// sect571r1 (SEC 2, 3.7.2).
pub const SECT571R1: Parameters = Parameters {
    field: Field::Binary { degree: 571, middle: &[2, 5, 10] },
    a: "1",
    b: concat!(
        "2f40e7e2221f295de297117b7f3d62f5c6a97ffcb8ceff1cd6ba8ce4a9a18ad8",
        "4ffabbd8efa59332be7ad6756a66e294afd185a78ff12aa520e4de739baca0c7",
        "ffeff7f2955727a",
    ),
    x: concat!(
        "303001d34b856296c16c0d40d3cd7750a93d1d2955fa80aa5f40fc8db7b2abdb",
        "de53950f4c0d293cdd711a35b67fb1499ae60038614f1394abfa3b4c850d927e",
        "1e7769c8eec2d19",
    ),
    y: concat!(
        "37bf27342da639b6dccfffeb73d69d78c6c27a6009cbbca1980f8533921e8a68",
        "4423e43bab08a576291af8f461bb2a8b3531d2f0485c19b16e2f1516e23dd3c1",
        "a4827af1b8ac15b",
    ),
    order: concat!(
        "3fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "fffffffe661ce18ff55987308059b186823851ec7dd9ca1161de93d5174d66e8",
        "382e9bb2fe84e47",
    ),
    cofactor: 2,
};
