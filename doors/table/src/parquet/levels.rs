//! Parquet's hybrid of run lengths and bit-packed runs (`Encodings.md`, "RLE"), in which levels and dictionary indices lie.

use parquet::errors::ParquetError;

use super::thrift::Parsed;

/// Calls `take` with each of `count` numbers of `width` bits, run by run: the number and how often it follows.
///
/// # Errors
/// When the bytes end before, or the width is past 32.
pub(crate) fn decode(
    bytes: &[u8],
    width: u8,
    count: usize,
    take: &mut dyn FnMut(u32, usize) -> Parsed<()>,
) -> Parsed<()> {
    let mut runs = Runs::new(bytes, width, count)?;
    while let Some((number, times)) = runs.next(usize::MAX)? {
        take(number, times)?;
    }
    Ok(())
}

/// The same numbers, taken when they are wanted.
pub(crate) struct Runs<B> {
    bytes: B,
    width: u8,
    /// Where the next run begins.
    at: usize,
    /// Numbers that were not given out.
    left: usize,
    run: Run,
}

/// What is left of a run.
enum Run {
    Repeated { number: u32, times: usize },
    Packed { from: usize, index: usize, count: usize },
}

impl<B: AsRef<[u8]>> Runs<B> {
    /// # Errors
    /// When the width is past 32.
    pub(crate) fn new(bytes: B, width: u8, count: usize) -> Parsed<Runs<B>> {
        if width > 32 {
            return Err(damaged("numbers have more than 32 bits"));
        }
        Ok(Runs { bytes, width, at: 0, left: count, run: Run::Repeated { number: 0, times: 0 } })
    }

    /// The next number and how often it follows, at most `most` times; nothing at the end.
    ///
    /// # Errors
    /// When the bytes end before.
    #[inline]
    pub(crate) fn next(&mut self, most: usize) -> Parsed<Option<(u32, usize)>> {
        loop {
            match &mut self.run {
                _ if self.left == 0 => return Ok(None),
                Run::Repeated { times: 0, .. } => {}
                Run::Repeated { number, times } => {
                    let taken = most.min(*times);
                    *times -= taken;
                    self.left -= taken;
                    return Ok(Some((*number, taken)));
                }
                Run::Packed { index, count, .. } if index == count => {}
                Run::Packed { from, index, .. } => {
                    let number = unpack(&self.bytes.as_ref()[*from..self.at], self.width, *index);
                    *index += 1;
                    self.left -= 1;
                    return Ok(Some((number, 1)));
                }
            }
            self.begin()?;
        }
    }

    /// Reads the head of the next run.
    fn begin(&mut self) -> Parsed<()> {
        let (bytes, width) = (self.bytes.as_ref(), usize::from(self.width));
        let (header, len) = varint(&bytes[self.at..])?;
        let at = self.at + len;
        let runs = usize::try_from(header >> 1).map_err(|_| damaged("a run is too long"))?;
        if header & 1 == 0 {
            let raw = bytes.get(at..at + width.div_ceil(8)).ok_or_else(|| damaged("a run ends early"))?;
            let number = raw.iter().rev().fold(0u32, |number, byte| number << 8 | u32::from(*byte));
            if runs == 0 {
                return Err(damaged("a run is empty"));
            }
            self.at = at + raw.len();
            self.run = Run::Repeated { number, times: runs.min(self.left) };
            return Ok(());
        }
        let len = runs.checked_mul(width).ok_or_else(|| damaged("a run is too long"))?;
        // Some writers leave out the bytes past the last number, of which there may be fewer than are asked for.
        let end = at.saturating_add(len).min(bytes.len());
        let there = (8 * (end - at)).checked_div(width).unwrap_or(usize::MAX);
        let count = self.left.min(runs.saturating_mul(8)).min(there);
        if count == 0 {
            return Err(damaged("a run ends early"));
        }
        self.at = end;
        self.run = Run::Packed { from: at, index: 0, count };
        Ok(())
    }
}

fn unpack(packed: &[u8], width: u8, index: usize) -> u32 {
    let first = index * usize::from(width);
    let mut window = [0; 8];
    let from = &packed[(first / 8).min(packed.len())..];
    let len = from.len().min(8);
    window[..len].copy_from_slice(&from[..len]);
    let mask = (1u64 << width) - 1;
    (u64::from_le_bytes(window) >> (first % 8) & mask) as u32
}

/// Appends the numbers, all below 2^`width`: long repetitions as runs, the rest bit-packed.
pub(crate) fn encode(numbers: &[u32], width: u8, bytes: &mut Vec<u8>) {
    let mut at = 0;
    let mut packed_from = 0;
    while at < numbers.len() {
        let len = numbers[at..].iter().take_while(|number| **number == numbers[at]).count();
        // A bit-packed run has a multiple of eight numbers, except the last.
        let pad = (8 - (at - packed_from) % 8) % 8;
        if len >= pad + 16 {
            pack(&numbers[packed_from..at + pad], width, bytes);
            write_varint(bytes, ((len - pad) as u64) << 1);
            bytes.extend_from_slice(&numbers[at].to_le_bytes()[..usize::from(width).div_ceil(8)]);
            packed_from = at + len;
        }
        at += len;
    }
    pack(&numbers[packed_from..], width, bytes);
}

fn pack(numbers: &[u32], width: u8, bytes: &mut Vec<u8>) {
    if numbers.is_empty() {
        return;
    }
    let groups = numbers.len().div_ceil(8);
    write_varint(bytes, (groups as u64) << 1 | 1);
    let (mut window, mut filled, mut written) = (0u64, 0u32, 0);
    for number in numbers.iter().copied().chain(std::iter::repeat_n(0, groups * 8 - numbers.len())) {
        window |= u64::from(number) << filled;
        filled += u32::from(width);
        while filled >= 8 {
            bytes.push(window as u8);
            written += 1;
            window >>= 8;
            filled -= 8;
        }
    }
    debug_assert_eq!((written, filled), (groups * usize::from(width), 0));
}

/// Bits that a number below `count` needs.
pub(crate) fn width_of(count: usize) -> u8 {
    (usize::BITS - count.saturating_sub(1).leading_zeros()) as u8
}

fn write_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn varint(bytes: &[u8]) -> Parsed<(u64, usize)> {
    let mut number = 0u64;
    for (index, byte) in bytes.iter().take(9).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((number, index + 1));
        }
    }
    Err(damaged("a run has no length"))
}

fn damaged(problem: &str) -> ParquetError {
    ParquetError::General(format!("levels or dictionary indices: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8], width: u8, count: usize) -> Parsed<Vec<u32>> {
        let mut numbers = Vec::new();
        decode(bytes, width, count, &mut |number, times| {
            numbers.extend(std::iter::repeat_n(number, times));
            Ok(())
        })?;
        Ok(numbers)
    }

    #[test]
    fn the_examples_of_the_format_are_read() {
        // Encodings.md: the numbers 0 to 7 in three bits each.
        assert_eq!(decoded(&[3, 0x88, 0xc6, 0xfa], 3, 8).unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(decoded(&[10, 9], 4, 5).unwrap(), [9; 5]);
        assert_eq!(decoded(&[10], 0, 5).unwrap(), [0; 5]);
        for cut in [&[][..], &[3, 0x88, 0xc6], &[10], &[0, 1], &[0x80]] {
            assert!(decoded(cut, 3, 8).is_err());
        }
        assert_eq!([0, 1, 2, 3, 256, 257].map(width_of), [0, 0, 1, 2, 8, 9]);
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read(width in 0u8..=20, runs in proptest::collection::vec((0u32..1 << 20, 1usize..60), 0..30)) {
            let numbers: Vec<u32> = runs.iter().flat_map(|(number, len)| {
                let len = if len % 3 == 0 { *len } else { 1 };
                std::iter::repeat_n(number & ((1 << width) - 1), len)
            }).collect();
            let mut bytes = Vec::new();
            encode(&numbers, width, &mut bytes);
            proptest::prop_assert_eq!(decoded(&bytes, width, numbers.len()).unwrap(), numbers);
        }

        #[test]
        fn hostile_bytes_never_panic(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..60), width in 0u8..40, count in 0usize..500
        ) {
            let _ = decoded(&bytes, width, count);
        }
    }
}
