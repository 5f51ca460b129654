//! Packets from and to capture files of the classic format (draft-ietf-opsawg-pcap): a header, then records of one packet each.
//!
//! A file comes from anywhere, so that each length in it is checked; what does not fit is an error with the packet's number, counted from
//! 1, and the offset of its record.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{PACKET_LEN_MAX, Received, Sent, Sink, Source, ip, packet_at};

/// Octets that a record may say it has: the largest that other programs write.
pub const RECORD_LEN_MAX: usize = 262_144;
/// VLAN tags that are taken off.
pub const VLAN_TAGS_MAX: usize = 4;
/// Packets that a source hands out in one call.
pub const BURST_MAX: usize = 1024;

const FILE_HEADER_LEN: usize = 24;
const RECORD_HEADER_LEN: usize = 16;
const ETHERNET_HEADER_LEN: usize = 14;
const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// The format's version that is read and written.
const VERSION: [u16; 2] = [2, 4];
/// `LINKTYPE_ETHERNET` and `LINKTYPE_RAW` of the registry of link types.
const LINK_ETHERNET: u32 = 1;
const LINK_RAW: u32 = 101;
const _: () = assert!(RECORD_LEN_MAX > PACKET_LEN_MAX + ETHERNET_HEADER_LEN + 4 * VLAN_TAGS_MAX);

/// What a file's packets begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Raw,
    Ethernet,
}

/// The order in which a file has the octets of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn number(self, octets: [u8; 4]) -> u32 {
        match self {
            Order::Little => u32::from_le_bytes(octets),
            Order::Big => u32::from_be_bytes(octets),
        }
    }
}

/// Reads a capture file, record by record.
#[derive(Debug)]
pub struct PcapSource<R> {
    input: R,
    order: Order,
    link: Link,
    number: u64,
    /// Where the next record begins.
    offset: u64,
    frame: Vec<u8>,
    /// Where the packet lies in `frame` that was refused.
    waiting: Option<(usize, usize)>,
    is_ended: bool,
    counters: Received,
}

impl PcapSource<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    /// The file cannot be read, or is no capture file with IP or Ethernet.
    pub fn open(path: &Path) -> io::Result<Self> {
        PcapSource::new(BufReader::new(File::open(path)?))
    }
}

impl<R: Read> PcapSource<R> {
    /// Reads the header of a file.
    ///
    /// # Errors
    /// It cannot be read, or is not that of a capture file with IP or Ethernet.
    pub fn new(mut input: R) -> io::Result<Self> {
        let mut header = [0; FILE_HEADER_LEN];
        let len = fill(&mut input, &mut header)?;
        if len < FILE_HEADER_LEN {
            return Err(bad(format!(
                "a capture file has a header of {FILE_HEADER_LEN} octets, this one ends after {len}"
            )));
        }
        let [m0, m1, m2, m3, v0, v1, v2, v3, .., l0, l1, l2, l3] = header;
        let is_magic = |magic: u32| matches!(magic, MAGIC_MICROSECONDS | MAGIC_NANOSECONDS);
        let order = match u32::from_le_bytes([m0, m1, m2, m3]) {
            magic if is_magic(magic) => Order::Little,
            magic if is_magic(magic.swap_bytes()) => Order::Big,
            _ => {
                return Err(bad(
                    "not a capture file of the classic format: its first four octets are others".to_owned()
                ));
            }
        };
        let version = match order {
            Order::Little => [u16::from_le_bytes([v0, v1]), u16::from_le_bytes([v2, v3])],
            Order::Big => [u16::from_be_bytes([v0, v1]), u16::from_be_bytes([v2, v3])],
        };
        if version != VERSION {
            return Err(bad(format!("a capture file of version {}.{}, not 2.4", version[0], version[1])));
        }
        // The upper bits say how long a frame's check sequence is, which lies behind the packet.
        let link = match order.number([l0, l1, l2, l3]) & 0xffff {
            LINK_RAW => Link::Raw,
            LINK_ETHERNET => Link::Ethernet,
            link => return Err(bad(format!("packets of link type {link}; 1 (Ethernet) and 101 (raw IP) are read"))),
        };
        Ok(PcapSource {
            input,
            order,
            link,
            number: 0,
            offset: FILE_HEADER_LEN as u64,
            frame: Vec::new(),
            waiting: None,
            is_ended: false,
            counters: Received::default(),
        })
    }

    /// Reads a record's frame, of which nobody needs the time; returns how long it was on its link. None at the end of the file.
    fn read_record(&mut self) -> io::Result<Option<usize>> {
        if self.is_ended {
            return Ok(None);
        }
        // What ends otherwise than by a whole record is not read on.
        self.is_ended = true;
        self.number += 1;
        let mut header = [0; RECORD_HEADER_LEN];
        let len = fill(&mut self.input, &mut header)?;
        if len == 0 {
            return Ok(None);
        }
        if len < RECORD_HEADER_LEN {
            return Err(self.bad(&format!("the file ends after {len} octets of the record's header")));
        }
        let [.., c0, c1, c2, c3, w0, w1, w2, w3] = header;
        let captured = self.order.number([c0, c1, c2, c3]) as usize;
        let frame_len = self.order.number([w0, w1, w2, w3]) as usize;
        if captured > RECORD_LEN_MAX {
            return Err(self.bad(&format!("a record of {captured} octets; {RECORD_LEN_MAX} are possible")));
        }
        if captured > frame_len {
            return Err(self.bad(&format!("{captured} octets were captured of a frame of {frame_len}")));
        }
        self.frame.resize(captured, 0);
        let len = fill(&mut self.input, &mut self.frame)?;
        if len < captured {
            return Err(self.bad(&format!("the file ends after {len} of {captured} octets")));
        }
        self.offset += (RECORD_HEADER_LEN + captured) as u64;
        self.is_ended = false;
        Ok(Some(frame_len))
    }

    fn bad(&self, what: &str) -> io::Error {
        bad(format!("packet {} at offset {}: {what}", self.number, self.offset))
    }
}

impl<R: Read + Send> Source for PcapSource<R> {
    fn receive(&mut self, _wait: Duration, take: &mut dyn FnMut(&[u8]) -> bool) -> io::Result<usize> {
        let mut taken = 0;
        for _ in 0..BURST_MAX {
            let place = match self.waiting.take() {
                Some(place) => place,
                None => match self.read_record() {
                    Ok(None) => break,
                    Ok(Some(frame_len)) => match packet_in(self.link, &self.frame) {
                        Some(place) => place,
                        None if frame_len > self.frame.len() => {
                            self.counters.truncated += 1;
                            continue;
                        }
                        None => {
                            self.counters.not_ip += 1;
                            continue;
                        }
                    },
                    Err(error) => return Err(error),
                },
            };
            let packet = self.frame.get(place.0..place.1).unwrap_or(&[]);
            if !take(packet) {
                self.waiting = Some(place);
                break;
            }
            self.counters.packets += 1;
            self.counters.octets += packet.len() as u64;
            taken += 1;
        }
        Ok(taken)
    }

    fn counters(&self) -> Received {
        self.counters
    }

    fn is_ended(&self) -> bool {
        self.is_ended && self.waiting.is_none()
    }
}

/// Where the IP packet lies in a frame. None if there is no whole one.
fn packet_in(link: Link, frame: &[u8]) -> Option<(usize, usize)> {
    let start = match link {
        Link::Raw => 0,
        Link::Ethernet => behind_ethernet(frame)?,
    };
    let len = ip::packet_len(frame.get(start..)?)?;
    Some((start, start + len))
}

/// Where the IP packet of an Ethernet frame begins, behind its VLAN tags (IEEE 802.1Q; 0x9100 is what some wrote before 802.1ad).
fn behind_ethernet(frame: &[u8]) -> Option<usize> {
    let mut at = ETHERNET_HEADER_LEN;
    for _ in 0..=VLAN_TAGS_MAX {
        match u16::from_be_bytes(*frame.get(at - 2..)?.first_chunk::<2>()?) {
            0x0800 | 0x86dd => return Some(at),
            0x8100 | 0x88a8 | 0x9100 => at += 4,
            _ => return None,
        }
    }
    None
}

/// Fills a buffer as far as the input goes, and returns how far.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while let Some(rest) = buffer.get_mut(len..).filter(|rest| !rest.is_empty()) {
        match input.read(rest) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// What a capture file is written to.
pub trait Storage: Write + Send {
    /// Cuts everything off behind `len` octets, where the next write goes.
    ///
    /// # Errors
    /// What the system says.
    fn cut(&mut self, len: u64) -> io::Result<()>;

    /// Makes sure that what was written survives a crash of the machine.
    ///
    /// # Errors
    /// What the system says.
    fn sync(&mut self) -> io::Result<()>;
}

impl Storage for File {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)?;
        self.seek(SeekFrom::Start(len)).map(|_| ())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// Writes a capture file with raw IP packets and times in nanoseconds.
///
/// The file has whole records only: what the disk had no room for is cut off again, so that the packets counted are those in the file.
#[derive(Debug)]
pub struct PcapSink<S> {
    storage: S,
    /// Octets of whole records, with the header.
    len: u64,
    records: Vec<u8>,
    /// Where each record ends in `records`.
    ends: Vec<usize>,
    counters: Sent,
}

impl PcapSink<File> {
    /// Makes a file.
    ///
    /// # Errors
    /// `AlreadyExists`, since no file is overwritten; otherwise what the system says.
    pub fn create(path: &Path) -> io::Result<Self> {
        PcapSink::new(File::create_new(path)?)
    }
}

impl<S: Storage> PcapSink<S> {
    /// Writes the header to an empty storage.
    ///
    /// # Errors
    /// What the storage says.
    pub fn new(mut storage: S) -> io::Result<Self> {
        let mut header = Vec::with_capacity(FILE_HEADER_LEN);
        header.extend(MAGIC_NANOSECONDS.to_le_bytes());
        header.extend(VERSION.iter().flat_map(|number| number.to_le_bytes()));
        header.extend([0; 8]);
        header.extend((PACKET_LEN_MAX as u32).to_le_bytes());
        header.extend(LINK_RAW.to_le_bytes());
        storage.write_all(&header)?;
        Ok(PcapSink {
            storage,
            len: FILE_HEADER_LEN as u64,
            records: Vec::new(),
            ends: Vec::new(),
            counters: Sent::default(),
        })
    }

    /// Makes sure that the file survives a crash, and gives the storage back.
    ///
    /// # Errors
    /// What the system says: the file may be lacking packets that were counted.
    pub fn finish(mut self) -> io::Result<S> {
        self.storage.flush()?;
        self.storage.sync()?;
        Ok(self.storage)
    }

    /// Writes the records; returns how many octets of them went, and the error that ended it.
    fn write(&mut self) -> (usize, io::Result<()>) {
        let mut written = 0;
        while let Some(rest) = self.records.get(written..).filter(|rest| !rest.is_empty()) {
            match self.storage.write(rest) {
                Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
                Ok(len) => written += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (written, Err(error)),
            }
        }
        (written, Ok(()))
    }

    fn push(&mut self, packet: &[u8], now: Duration) {
        // Seconds of 32 bits, as the format has them, until 2106.
        self.records.extend((now.as_secs() as u32).to_le_bytes());
        self.records.extend(now.subsec_nanos().to_le_bytes());
        self.records.extend((packet.len() as u32).to_le_bytes());
        self.records.extend((packet.len() as u32).to_le_bytes());
        self.records.extend(packet);
        self.ends.push(self.records.len());
    }
}

impl<S: Storage> Sink for PcapSink<S> {
    fn send(&mut self, buffer: &[u8], packets: &[[u32; 2]]) -> io::Result<usize> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.records.clear();
        self.ends.clear();
        let mut prepared = Ok(());
        for pair in packets {
            match packet_at(buffer, *pair) {
                Ok(packet) if ip::packet_len(packet) == Some(packet.len()) => self.push(packet, now),
                Ok(_) => self.counters.not_ip += 1,
                Err(error) => {
                    prepared = Err(error);
                    break;
                }
            }
        }
        let (written, done) = self.write();
        let whole = self.ends.partition_point(|end| *end <= written);
        let whole_len = if whole == 0 { 0 } else { self.ends.get(whole - 1).copied().unwrap_or(0) };
        self.len += whole_len as u64;
        self.counters.packets += whole as u64;
        self.counters.octets += (whole_len - whole * RECORD_HEADER_LEN) as u64;
        if let Err(error) = done {
            self.counters.refused += (self.ends.len() - whole) as u64;
            let cut = if written > whole_len { self.storage.cut(self.len) } else { Ok(()) };
            let after = match cut {
                Ok(()) => format!("{} packets are in the file whole", self.counters.packets),
                Err(cut) => format!("and the last record is not whole: {cut}"),
            };
            return Err(io::Error::new(error.kind(), format!("{error}; {after}")));
        }
        prepared.map(|()| whole)
    }

    fn counters(&self) -> Sent {
        self.counters
    }
}

fn bad(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests;
