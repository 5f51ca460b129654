use super::*;

fn packet(len: usize) -> Vec<u8> {
    let mut packet = (0..len).map(|at| at as u8).collect::<Vec<_>>();
    packet[..4].copy_from_slice(&[0x45, 0, (len >> 8) as u8, len as u8]);
    packet
}

/// A file in the given order, with the second half of times and the octets that each frame had.
fn file(order: Order, magic: u32, link: u32, records: &[(u32, u32, usize, Vec<u8>)]) -> Vec<u8> {
    let number = |number: u32| match order {
        Order::Little => number.to_le_bytes(),
        Order::Big => number.to_be_bytes(),
    };
    let mut file = number(magic).to_vec();
    file.extend(match order {
        Order::Little => [2, 0, 4, 0],
        Order::Big => [0, 2, 0, 4],
    });
    file.extend([0; 8]);
    file.extend(number(65_535));
    file.extend(number(link));
    for (seconds, fraction, frame_len, frame) in records {
        for field in [*seconds, *fraction, frame.len() as u32, *frame_len as u32] {
            file.extend(number(field));
        }
        file.extend(frame);
    }
    file
}

fn ethernet(types: &[u16], packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    for (at, kind) in types.iter().enumerate() {
        if at > 0 {
            frame.extend([0, 7]);
        }
        frame.extend(kind.to_be_bytes());
    }
    frame.extend(packet);
    frame
}

fn receive_all(source: &mut impl Source) -> io::Result<Vec<Vec<u8>>> {
    let mut packets = Vec::new();
    while !source.is_ended() {
        source.receive(Duration::ZERO, &mut |packet| {
            packets.push(packet.to_vec());
            true
        })?;
    }
    Ok(packets)
}

#[test]
fn all_four_magics_are_read() {
    for order in [Order::Little, Order::Big] {
        for magic in [MAGIC_MICROSECONDS, MAGIC_NANOSECONDS] {
            let file = file(order, magic, LINK_RAW, &[(3, 5, 40, packet(40)), (4, 999, 1400, packet(1400))]);
            let mut source = PcapSource::new(&file[..]).unwrap();
            assert_eq!(receive_all(&mut source).unwrap(), [packet(40), packet(1400)]);
            assert_eq!((source.counters().packets, source.counters().octets), (2, 1440));
        }
    }
}

#[test]
fn ethernet_headers_and_vlan_tags_are_taken_off() {
    let mut six = vec![0x60, 0, 0, 0, 0, 3, 59, 1];
    six.resize(43, 9);
    let mut padded = packet(22);
    padded.resize(46, 0);
    let frames = [
        ethernet(&[0x0800], &padded),
        ethernet(&[0x8100, 0x0800], &packet(30)),
        ethernet(&[0x88a8, 0x8100, 0x86dd], &six),
        ethernet(&[0x9100, 0x8100, 0x8100, 0x8100, 0x0800], &packet(31)),
        ethernet(&[0x8100, 0x8100, 0x8100, 0x8100, 0x8100, 0x0800], &packet(32)),
        ethernet(&[0x0806], &packet(33)),
        vec![1; 13],
        vec![],
    ];
    let records = frames.iter().map(|frame| (0, 0, frame.len(), frame.clone())).collect::<Vec<_>>();
    let file = file(Order::Little, MAGIC_MICROSECONDS, LINK_ETHERNET, &records);
    let mut source = PcapSource::new(&file[..]).unwrap();
    assert_eq!(receive_all(&mut source).unwrap(), [packet(22), packet(30), six, packet(31)]);
    assert_eq!((source.counters().packets, source.counters().not_ip), (4, 4));
}

#[test]
fn a_refused_packet_stays_and_truncated_ones_are_counted() {
    let records = [(0, 0, 40, packet(40)), (0, 0, 50, packet(50)[..30].to_vec()), (0, 0, 60, packet(60))];
    let file = file(Order::Big, MAGIC_NANOSECONDS, LINK_RAW, &records);
    let mut source = PcapSource::new(&file[..]).unwrap();
    assert_eq!(source.receive(Duration::ZERO, &mut |packet| packet.len() == 40).unwrap(), 1);
    assert_eq!(source.receive(Duration::ZERO, &mut |_| false).unwrap(), 0);
    assert!(!source.is_ended());
    assert_eq!(receive_all(&mut source).unwrap(), [packet(60)]);
    assert_eq!(source.counters().truncated, 1);
}

#[test]
fn a_bad_file_is_an_error_with_number_and_offset() {
    let good = [(0, 0, 40, packet(40)), (0, 0, 44, packet(44))];
    let whole = file(Order::Little, MAGIC_MICROSECONDS, LINK_RAW, &good);
    // Cut anywhere within the second record, whose header begins at 80.
    for len in 81..whole.len() {
        let error = receive_all(&mut PcapSource::new(&whole[..len]).unwrap()).unwrap_err().to_string();
        assert!(error.contains("packet 2 at offset 80"), "{len}: {error}");
    }
    for (at, value) in [(88, 262_145u32), (88, u32::MAX), (92, 43)] {
        let mut bad = whole.clone();
        bad[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let mut source = PcapSource::new(&bad[..]).unwrap();
        let error = receive_all(&mut source).unwrap_err().to_string();
        assert!(error.contains("packet 2 at offset 80"), "{error}");
        assert!(source.is_ended());
        assert_eq!(source.counters().packets, 1);
    }
    for len in 0..24 {
        assert!(PcapSource::new(&whole[..len]).is_err());
    }
    for (at, octet) in [(0, 0), (4, 3), (6, 5), (20, 113)] {
        let mut bad = whole.clone();
        bad[at] = octet;
        assert_eq!(PcapSource::new(&bad[..]).unwrap_err().kind(), io::ErrorKind::InvalidData, "octet {at}");
    }
}

#[test]
fn what_is_written_is_read_again_and_no_file_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("written.pcap");
    let packets = [packet(20), packet(1400), packet(65_535)];
    let buffer = packets.concat();
    let mut sink = PcapSink::create(&path).unwrap();
    let pairs = [[0, 20], [20, 1420], [1420, 1420 + 65_535], [1, 9]];
    assert_eq!(sink.send(&buffer, &pairs).unwrap(), 3);
    assert_eq!((sink.counters().octets, sink.counters().not_ip), (20 + 1400 + 65_535, 1));
    assert_eq!(sink.send(&buffer, &[[0, 70_000]]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    sink.finish().unwrap();
    assert_eq!(receive_all(&mut PcapSource::open(&path).unwrap()).unwrap(), packets);
    assert_eq!(PcapSink::create(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
}

/// A disk with room for so many octets.
struct Disk {
    octets: Vec<u8>,
    room: usize,
}

impl Write for Disk {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let len = octets.len().min(self.room - self.octets.len());
        if len == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.octets.extend(&octets[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Storage for Disk {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.octets.truncate(len as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_reported_and_leaves_whole_records() {
    let buffer = [packet(40), packet(44), packet(48)].concat();
    let pairs = [[0, 40], [40, 84], [84, 132]];
    let all = FILE_HEADER_LEN + 3 * RECORD_HEADER_LEN + 132;
    for room in FILE_HEADER_LEN..all {
        let mut sink = PcapSink::new(Disk { octets: Vec::new(), room }).unwrap();
        let error = sink.send(&buffer, &pairs).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let counters = sink.counters();
        assert_eq!(counters.packets + counters.refused, 3);
        let octets = sink.finish().unwrap().octets;
        let packets = receive_all(&mut PcapSource::new(&octets[..]).unwrap()).unwrap();
        assert_eq!(packets.len() as u64, counters.packets, "room for {room} octets");
        let sizes = [0, 24 + 56, 24 + 56 + 60];
        assert_eq!(packets.len(), sizes.iter().filter(|size| room >= **size).count() - 1);
    }
    assert!(PcapSink::new(Disk { octets: Vec::new(), room: 23 }).is_err());
}
