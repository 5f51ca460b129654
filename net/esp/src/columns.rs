//! The columns that a burst's packets become, one set for each transform and way of counting, and how they are run.

use core::ops::Range;

use ciphermill::{RunOptions, Session};
use ciphermill_contract::columns::{AadColumn, ColumnData, Extents, IvColumn, KeyColumn, TagColumn};
use ciphermill_contract::suite::{Digest, Mac};
use ciphermill_contract::{ColumnBatch, ColumnStatus, Direction, EngineKinds, KeyId, Result, Suite};
use ciphermill_memory::reserve_wiped;
use zeroize::Zeroizing;

use crate::error::CryptError;
use crate::limits::{ESP_LEN, ICV_LEN_MAX};
use crate::transform::{Transform, Work, cbc, chain, hmac};

/// Bytes from one nonce to the next.
const NONCE_LEN: usize = 12;

/// Bytes from one head to the next.
const HEAD_LEN: usize = 12;

/// Bursts are spread over cores by whoever has them: a mill's threads would take the cores of other workers.
const OWN_THREAD: RunOptions<'_> = RunOptions { engine: None, kinds: EngineKinds::ALL, deadline: None, splits: false };

/// What packets have in common that go into one set of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupKind {
    pub(crate) transform: Transform,
    /// Whether the ICV covers 64 bits of sequence number.
    pub(crate) is_extended: bool,
}

/// How they are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// Ciphertext and ICV by one suite, with a nonce of so many bytes; SPI and sequence number are additional data (RFC 4106, 5).
    Aead(Suite, usize),
    /// The same, with the IV before the ciphertext.
    Chain(Suite),
    /// A cipher and then a MAC; when opening the other way round. For digests that no chain of ours is fast with, and for extended numbers,
    /// whose high half the MAC takes behind the packet (RFC 4303, 2.2.1).
    Passes(Option<Suite>, Suite),
    /// A MAC over everything; the high half of extended numbers stands between SPI and low half (RFC 4543, 3.4).
    Gmac(Suite),
}

impl GroupKind {
    fn plan(self) -> Plan {
        match self.transform.work {
            Work::Aead { suite, salt_len } => Plan::Aead(suite, usize::from(salt_len) + 8),
            Work::Gmac(size) => Plan::Gmac(Suite::Mac(Mac::Gmac(size))),
            Work::NullHmac(digest) => Plan::Passes(None, hmac(digest)),
            Work::CbcHmac { cipher, digest: digest @ (Digest::Sha1 | Digest::Sha256) } if !self.is_extended => {
                Plan::Chain(chain(cipher, digest))
            }
            Work::CbcHmac { cipher, digest } => Plan::Passes(Some(cbc(cipher)), hmac(digest)),
        }
    }

    /// The suites that are run, each with the key's bytes that it gets.
    pub(crate) fn suites(self) -> [Option<(Suite, Range<usize>)>; 2] {
        let len = self.transform.key_len();
        match (self.plan(), self.transform.work) {
            (Plan::Aead(suite, _) | Plan::Chain(suite) | Plan::Gmac(suite), _) => [Some((suite, 0..len)), None],
            (Plan::Passes(Some(cipher), mac), Work::CbcHmac { digest, .. }) => {
                let cut = len - digest.len();
                [Some((cipher, 0..cut)), Some((mac, cut..len))]
            }
            (Plan::Passes(_, mac), _) => [None, Some((mac, 0..len))],
        }
    }

    /// Bytes from the ESP header to where the columns' spans begin.
    pub(crate) fn lead(self) -> usize {
        match self.plan() {
            Plan::Aead(..) => ESP_LEN + self.transform.iv_len(),
            Plan::Chain(_) | Plan::Passes(..) => ESP_LEN,
            Plan::Gmac(_) => 0,
        }
    }

    /// Whether the IV is drawn when a packet is run, not counted.
    pub(crate) fn draws_ivs(self) -> bool {
        matches!(self.transform.work, Work::CbcHmac { .. })
    }
}

/// The packets of one kind.
pub(crate) struct Group {
    kind: GroupKind,
    plan: Plan,
    /// From [`GroupKind::lead`] to the ICV's end.
    spans: Vec<[u32; 2]>,
    /// As [`GroupKind::suites`] has them; none where there is no such suite.
    keys: [Vec<KeyId>; 2],
    has_one_key: bool,
    /// Salt and IV, [`NONCE_LEN`] bytes each; wiped, since the salt came with the key.
    nonces: Zeroizing<Vec<u8>>,
    /// SPI and sequence number as they are authenticated; eight bytes of it where the number is short.
    heads: Vec<u8>,
    statuses: Vec<ColumnStatus>,
    /// Kept for the way that needs them.
    tags: Vec<u8>,
    other_spans: Vec<[u32; 2]>,
    bytes: Zeroizing<Vec<u8>>,
}

impl Group {
    pub(crate) fn new(kind: GroupKind) -> Group {
        Group {
            kind,
            plan: kind.plan(),
            spans: Vec::new(),
            keys: [const { Vec::new() }; 2],
            has_one_key: true,
            nonces: Zeroizing::default(),
            heads: Vec::new(),
            statuses: Vec::new(),
            tags: Vec::new(),
            other_spans: Vec::new(),
            bytes: Zeroizing::default(),
        }
    }

    pub(crate) fn kind(&self) -> GroupKind {
        self.kind
    }

    pub(crate) fn clear(&mut self) {
        self.spans.clear();
        self.keys.iter_mut().for_each(Vec::clear);
        self.has_one_key = true;
        self.nonces.clear();
        self.heads.clear();
        self.statuses.clear();
    }

    /// Adds a packet; returns its number.
    #[inline(always)]
    pub(crate) fn push(&mut self, span: [u32; 2], keys: [KeyId; 2], nonce: u128, head: u128) -> u32 {
        self.push_keys(keys, 1);
        self.push_packet(span, nonce, head)
    }

    /// Adds a packet whose keys [`Group::push_keys`] is told besides.
    #[inline(always)]
    pub(crate) fn push_packet(&mut self, span: [u32; 2], nonce: u128, head: u128) -> u32 {
        let index = self.spans.len();
        self.spans.push(span);
        reserve_wiped(&mut self.nonces, NONCE_LEN);
        self.nonces.extend_from_slice(&nonce.to_le_bytes()[..NONCE_LEN]);
        self.heads.extend_from_slice(&head.to_le_bytes()[..HEAD_LEN]);
        index as u32
    }

    /// The keys of so many packets.
    #[inline(always)]
    pub(crate) fn push_keys(&mut self, keys: [KeyId; 2], count: usize) {
        for (column, key) in self.keys.iter_mut().zip(keys) {
            if key == KeyId::NONE {
                continue;
            }
            self.has_one_key &= column.first().is_none_or(|first| *first == key);
            if count == 1 {
                column.push(key);
            } else {
                column.extend(core::iter::repeat_n(key, count));
            }
        }
    }

    #[inline]
    pub(crate) fn status(&self, index: u32) -> ColumnStatus {
        self.statuses.get(index as usize).copied().unwrap_or(ColumnStatus::ENGINE_FAULT)
    }

    /// Runs the packets, which lie in `data`. What is not done afterwards was not.
    pub(crate) fn run(
        &mut self,
        session: &mut Session,
        data: &mut [u8],
        direction: Direction,
    ) -> core::result::Result<(), CryptError> {
        if self.spans.is_empty() {
            return Ok(());
        }
        self.statuses.resize(self.spans.len(), ColumnStatus::PENDING);
        let ran = match (self.plan, direction) {
            (Plan::Aead(suite, nonce_len), _) => self.run_aead(session, data, (suite, direction), nonce_len),
            (Plan::Chain(suite), _) => self.run_chain(session, data, (suite, direction)),
            (Plan::Passes(cipher, mac), Direction::Encrypt) => self
                .run_cipher(session, data, cipher, direction)
                .and_then(|()| self.run_hmac(session, data, (mac, direction))),
            (Plan::Passes(cipher, mac), Direction::Decrypt) => self
                .run_hmac(session, data, (mac, direction))
                .and_then(|()| self.run_cipher(session, data, cipher, direction)),
            (Plan::Gmac(mac), _) => self.run_gmac(session, data, (mac, direction)),
        };
        ran.map_err(|error| {
            // What one of two passes did is not done.
            self.statuses.fill(ColumnStatus::ENGINE_FAULT);
            CryptError { transform: self.kind.transform, error }
        })
    }

    fn icv_len(&self) -> usize {
        self.kind.transform.icv_len()
    }

    fn head_extents(&self) -> Extents<'static> {
        Extents::Strided { len: if self.kind.is_extended { 12 } else { 8 }, stride: HEAD_LEN }
    }

    fn run_aead(
        &mut self,
        session: &mut Session,
        data: &mut [u8],
        (suite, direction): (Suite, Direction),
        nonce_len: usize,
    ) -> Result<()> {
        let (icv_len, extents) = (self.icv_len(), self.head_extents());
        let keys = key_column(&self.keys[0], self.has_one_key);
        let nonces = match nonce_len {
            NONCE_LEN => &self.nonces,
            // CCM has three bytes of salt.
            len => {
                self.bytes.clear();
                reserve_wiped(&mut self.bytes, self.nonces.len());
                self.nonces.chunks_exact(NONCE_LEN).for_each(|nonce| self.bytes.extend_from_slice(&nonce[..len]));
                &self.bytes
            }
        };
        let data = ColumnData::InPlace { data, extents: Extents::Spans(&self.spans) };
        let batch = ColumnBatch::new(suite, direction, data, &mut self.statuses)
            .with_keys(keys)
            .with_ivs(IvColumn::Each { bytes: nonces, len: nonce_len })
            .with_aad(AadColumn::Each { bytes: &self.heads, extents })
            .with_tags(TagColumn::After { len: icv_len });
        session.run_columns_with(batch, &OWN_THREAD).map(drop)
    }

    fn run_chain(
        &mut self,
        session: &mut Session,
        data: &mut [u8],
        (suite, direction): (Suite, Direction),
    ) -> Result<()> {
        let (icv_len, extents) = (self.icv_len(), self.head_extents());
        let keys = key_column(&self.keys[0], self.has_one_key);
        let data = ColumnData::InPlace { data, extents: Extents::Spans(&self.spans) };
        let batch = ColumnBatch::new(suite, direction, data, &mut self.statuses)
            .with_keys(keys)
            .with_ivs(inline_iv(self.kind.transform.iv_len(), direction))
            .with_aad(AadColumn::Each { bytes: &self.heads, extents })
            .with_tags(TagColumn::After { len: icv_len });
        session.run_columns_with(batch, &OWN_THREAD).map(drop)
    }

    /// Encrypts, or decrypts what was verified.
    fn run_cipher(
        &mut self,
        session: &mut Session,
        data: &mut [u8],
        cipher: Option<Suite>,
        direction: Direction,
    ) -> Result<()> {
        let Some(cipher) = cipher else { return Ok(()) };
        let icv_len = self.icv_len() as u32;
        self.other_spans.clear();
        self.other_spans.extend(self.spans.iter().map(|[start, end]| [*start, end - icv_len]));
        let keys = key_column(&self.keys[0], self.has_one_key);
        let mut statuses = self.statuses.clone();
        if direction == Direction::Decrypt {
            let next = |status: &mut ColumnStatus| {
                *status = if status.is_done() { ColumnStatus::PENDING } else { ColumnStatus::LEFT_OUT };
            };
            statuses.iter_mut().for_each(next);
        }
        let data = ColumnData::InPlace { data, extents: Extents::Spans(&self.other_spans) };
        let batch = ColumnBatch::new(cipher, direction, data, &mut statuses)
            .with_keys(keys)
            .with_ivs(inline_iv(self.kind.transform.iv_len(), direction));
        session.run_columns_with(batch, &OWN_THREAD)?;
        for (own, status) in self.statuses.iter_mut().zip(statuses) {
            match direction {
                // The MAC is still to come.
                Direction::Encrypt if status.is_done() => {}
                // What is not encrypted gets no MAC, and the others do.
                Direction::Encrypt => *own = ColumnStatus::LEFT_OUT,
                Direction::Decrypt if status.is_done() || status == ColumnStatus::LEFT_OUT => {}
                _ => *own = ColumnStatus::ENGINE_FAULT,
            }
        }
        Ok(())
    }

    /// Writes ICVs, or verifies them, over the packets from the ESP header on.
    fn run_hmac(&mut self, session: &mut Session, data: &mut [u8], (mac, direction): (Suite, Direction)) -> Result<()> {
        let (icv_len, is_extended) = (self.icv_len() as u32, self.kind.is_extended);
        self.take_icvs(data, direction);
        self.other_spans.clear();
        for ([start, end], head) in self.spans.iter().zip(self.heads.chunks_exact(HEAD_LEN)) {
            let (from, mut to) = (start - ESP_LEN as u32, end - icv_len);
            if is_extended {
                // The high half, where the ICV lies otherwise.
                data[to as usize..][..4].copy_from_slice(&head[4..8]);
                to += 4;
            }
            self.other_spans.push([from, to]);
        }
        self.run_mac(session, data, (mac, direction), IvColumn::None, 1)?;
        self.put_icvs(data);
        Ok(())
    }

    fn run_gmac(&mut self, session: &mut Session, data: &mut [u8], (mac, direction): (Suite, Direction)) -> Result<()> {
        let (icv_len, is_extended) = (self.icv_len() as u32, self.kind.is_extended);
        self.take_icvs(data, direction);
        self.other_spans.clear();
        self.bytes.clear();
        for ([start, end], head) in self.spans.iter().zip(self.heads.chunks_exact(HEAD_LEN)) {
            let mut from = *start;
            if is_extended {
                // SPI and high half before the low half, which stays: over the end of the header before, which is kept meanwhile.
                from -= 4;
                let before = &mut data[from as usize..][..8];
                self.bytes.extend_from_slice(&before[..4]);
                before.copy_from_slice(&head[..8]);
            }
            self.other_spans.push([from, end - icv_len]);
        }
        let nonces = core::mem::take(&mut self.nonces);
        let ivs = IvColumn::Each { bytes: &nonces, len: NONCE_LEN };
        let ran = self.run_mac(session, data, (mac, direction), ivs, 0);
        self.nonces = nonces;
        ran?;
        self.put_icvs(data);
        Ok(())
    }

    fn run_mac(
        &mut self,
        session: &mut Session,
        data: &[u8],
        (mac, direction): (Suite, Direction),
        ivs: IvColumn<'_>,
        key: usize,
    ) -> Result<()> {
        let len = self.icv_len();
        let keys = key_column(&self.keys[key], self.has_one_key);
        let tags = match direction {
            Direction::Encrypt => TagColumn::Written { bytes: &mut self.tags, len },
            Direction::Decrypt => TagColumn::Expected { bytes: &self.tags, len },
        };
        let data = ColumnData::Input { input: data, inputs: Extents::Spans(&self.other_spans) };
        let batch =
            ColumnBatch::new(mac, direction, data, &mut self.statuses).with_keys(keys).with_ivs(ivs).with_tags(tags);
        session.run_columns_with(batch, &OWN_THREAD).map(drop)
    }

    /// Makes room for ICVs, or takes those of the packets that are to be opened.
    fn take_icvs(&mut self, data: &[u8], direction: Direction) {
        let len = self.icv_len();
        debug_assert!(len <= ICV_LEN_MAX, "the longest of all transforms");
        self.tags.clear();
        match direction {
            Direction::Encrypt => self.tags.resize(len * self.spans.len(), 0),
            Direction::Decrypt => {
                let icv = |[_, end]: &[u32; 2]| &data[*end as usize - len..*end as usize];
                self.spans.iter().for_each(|span| self.tags.extend_from_slice(icv(span)));
            }
        }
    }

    /// Puts ICVs where they belong, over what the MAC was given there; and likewise what lay where GMAC's input began.
    fn put_icvs(&mut self, data: &mut [u8]) {
        let len = self.icv_len();
        for ([_, end], icv) in self.spans.iter().zip(self.tags.chunks_exact(len)) {
            data[*end as usize - len..*end as usize].copy_from_slice(icv);
        }
        if self.kind.is_extended && matches!(self.plan, Plan::Gmac(_)) {
            for (([start, _], head), before) in
                self.spans.iter().zip(self.heads.chunks_exact(HEAD_LEN)).zip(self.bytes.chunks_exact(4))
            {
                data[*start as usize - 4..][..4].copy_from_slice(before);
                data[*start as usize..][..4].copy_from_slice(&head[..4]);
            }
        }
    }
}

/// IVs of a cipher in CBC: before the ciphertext, unpredictable (RFC 3602, 3).
fn inline_iv(len: usize, direction: Direction) -> IvColumn<'static> {
    match direction {
        Direction::Encrypt => IvColumn::Drawn { len },
        Direction::Decrypt => IvColumn::Inline { len },
    }
}

/// The keys of all packets.
fn key_column(keys: &[KeyId], has_one: bool) -> KeyColumn<'_> {
    match keys.first() {
        Some(first) if has_one => KeyColumn::One(*first),
        _ => KeyColumn::Each(keys),
    }
}
