//! CSV files: what is not protected keeps every byte, and so does what is restored.

use std::sync::atomic::{AtomicU64, Ordering};

use ciphermill_table::{Format, Position, TableError, UnprotectJob, protect};

use crate::Bench;
use crate::samples::Numbers;

const PEOPLE: &str = "\
id,name,mail,phone,note\r
1,Ann,ann@example.org,25-989-741-2988,plain\r
2,\"Béa, \"\"B\"\"\",ann@example.org,13-345-678-9012,\"a \"\"quoted\"\", note\"\r
3,,bo@example.org,,\"\"\r
4,\"quoted for no reason\",,25-989-741-2988,\"two\nlines\"\r
5, spaces ,日本@example.org,\"10-000-000-0001\",in\"side\r
";

const ALL: [&str; 4] =
    ["name=random", "mail=deterministic", "id=token:as=person", "phone=ff1:sep=-,keep=2,keep-last=1"];

/// Fields of a text without quoted delimiters.
fn cells(text: &str) -> Vec<Vec<&str>> {
    text.lines().skip(1).map(|line| line.split(',').collect()).collect()
}

#[test]
fn a_round_trip_gives_back_every_byte() {
    let bench = Bench::new();
    bench.write("in.csv", PEOPLE);
    let columns = ["name=random", "mail=deterministic", "phone=ff1:preset=phone,keep=2", "note=random"];
    let summary = bench.protect("in.csv", "out.csv", &columns).unwrap();
    assert_eq!((summary.rows, summary.values, summary.nulls), (5, 4 + 4 + 4 + 4, 1 + 1 + 1 + 1));
    let protected = bench.text("out.csv");
    for secret in ["Ann", "Béa", "example.org", "741", "quoted", "lines"] {
        assert!(!protected.contains(secret), "{secret} stands in the protected file");
    }
    assert_eq!(bench.names(), ["in.csv", "out.csv", "out.csv.ciphermill.json"]);
    let back = bench.unprotect("out.csv", "back.csv").unwrap();
    assert_eq!((back.rows, back.values, back.nulls), (summary.rows, summary.values, summary.nulls));
    assert_eq!(bench.text("back.csv"), PEOPLE);
}

#[test]
fn files_without_last_line_end_with_marks_and_blank_lines_come_back() {
    let bench = Bench::new();
    for text in [
        "a,b\n1,2",
        "a,b\n1,2\n\n",
        "\u{feff}a,b\r\n1,2\r\n",
        "\n\na,b\n\n1,\"2\"\n\r\n3,4\n\n",
        "a,b\n",
        "a,b",
        "a,b\r1,2\r",
        "\"a\",\"b\"\n\"x\"\"y\",\"\"\"\"\n",
    ] {
        bench.write("in.csv", text);
        let force = |mut job: ciphermill_table::ProtectJob| {
            job.force = true;
            job
        };
        let job = force(bench.job("in.csv", "out.csv", &["a=deterministic", "b=random"]));
        protect(&job, &bench.mill, &bench.root, &ciphermill_table::NoProgress).unwrap();
        let mut back = bench.back("out.csv", "back.csv");
        back.force = true;
        ciphermill_table::unprotect(&back, &bench.mill, &bench.root, &ciphermill_table::NoProgress).unwrap();
        assert_eq!(bench.text("back.csv"), text, "{text:?}");
    }
}

#[test]
fn each_method_does_what_it_says() {
    let bench = Bench::new();
    bench.write(
        "in.csv",
        "id,name,mail,phone\n7,Ann,m,25-989-741-2988\n7,Ann,m,25-989-741-2988\n8,Bob,n,25-989-741-2980\n",
    );
    bench.protect("in.csv", "out.csv", &ALL).unwrap();
    let protected = bench.text("out.csv");
    let rows = cells(&protected);
    assert_ne!(rows[0][1], rows[1][1], "random: equal values look different");
    assert_eq!(rows[0][1].len(), (12usize + 3 + 16).div_ceil(3) * 4 - 2, "nonce, value, tag in base64url");
    assert_eq!(rows[0][2], rows[1][2], "deterministic: equal values look equal");
    assert_ne!(rows[0][2], rows[2][2]);
    assert_eq!(rows[0][0], rows[1][0], "token: equal values give equal tokens");
    assert_ne!(rows[0][0], rows[2][0]);
    assert_eq!(rows[0][0].len(), 43, "32 bytes in base64url");
    let phone = rows[0][3];
    assert_eq!((phone.len(), &phone[..3], &phone[6..7], &phone[10..11]), (15, "25-", "-", "-"));
    assert!(phone.ends_with('8') && phone != "25-989-741-2988", "ff1 keeps form, start and end: {phone}");
    assert_eq!(rows[1][3], phone);

    let back = bench.unprotect("out.csv", "back.csv").unwrap();
    let tokens: Vec<&str> =
        back.columns.iter().filter(|column| column.left_as_tokens).map(|column| column.name.as_str()).collect();
    assert_eq!(tokens, ["id"], "the summary says which column was left as tokens");
    let restored = bench.text("back.csv");
    let restored = cells(&restored);
    assert_eq!(restored[2][1..], ["Bob", "n", "25-989-741-2980"]);
    assert_eq!(restored[0][0], rows[0][0], "tokens stay tokens");
}

#[test]
fn separators_and_kept_parts_are_bound() {
    let bench = Bench::new();
    bench.write("in.csv", "a\n25-123456\n26-123456\n25-12345-6\n");
    bench.protect("in.csv", "out.csv", &["a=ff1:sep=-,keep=2"]).unwrap();
    let protected = bench.text("out.csv");
    let digits: Vec<String> =
        protected.lines().skip(1).map(|line| line.chars().filter(char::is_ascii_digit).skip(2).collect()).collect();
    assert_ne!(digits[0], digits[1], "the kept start is part of the tweak");
    assert_ne!(digits[0], digits[2], "where separators stand is part of the tweak");
}

#[test]
fn a_logical_name_outlives_the_physical_one() {
    let bench = Bench::new();
    bench.write("one.csv", "mail,x\na@b,1\n");
    bench.write("two.csv", "x,contact\n1,a@b\n");
    bench.protect("one.csv", "one.out.csv", &["mail=deterministic"]).unwrap();
    bench.protect("two.csv", "two.out.csv", &["contact=deterministic:as=mail"]).unwrap();
    let (one, two) = (bench.text("one.out.csv"), bench.text("two.out.csv"));
    assert_eq!(cells(&one)[0][0], cells(&two)[0][1], "columns of one logical name can be joined");
    bench.protect("two.csv", "other.csv", &["contact=deterministic"]).unwrap();
    assert_ne!(cells(&bench.text("other.csv"))[0][1], cells(&two)[0][1], "others cannot");

    // Renamed after it was protected: the file has changed, each value is authenticated all the same.
    bench.write("renamed.csv", one.replace("mail", "address"));
    std::fs::copy(bench.path("one.out.csv.ciphermill.json"), bench.path("renamed.csv.ciphermill.json")).unwrap();
    let mut job = bench.back("renamed.csv", "back.csv");
    job.renamed = vec![("address".to_owned(), "mail".to_owned())];
    let run =
        |job: &UnprotectJob| ciphermill_table::unprotect(job, &bench.mill, &bench.root, &ciphermill_table::NoProgress);
    assert!(matches!(run(&job), Err(TableError::Changed { .. })));
    job.allow_changed = true;
    run(&job).unwrap();
    assert_eq!(bench.text("back.csv"), "address,x\na@b,1\n");
}

#[test]
fn other_delimiters_and_formats_by_option() {
    let bench = Bench::new();
    bench.write("in.tsv", "a\tb\n1,5\tx\n");
    bench.protect("in.tsv", "out.tsv", &["a=random"]).unwrap();
    assert!(bench.text("out.tsv").ends_with("\tx\n"));
    bench.unprotect("out.tsv", "back.tsv").unwrap();
    assert_eq!(bench.text("back.tsv"), "a\tb\n1,5\tx\n");

    bench.write("table", "a;b\n1;x\n");
    assert!(matches!(bench.protect("table", "t.out", &["a=random"]), Err(TableError::FormatUnknown { .. })));
    let mut job = bench.job("table", "t.out", &["a=random"]);
    (job.format, job.delimiter) = (Some(Format::Csv), Some(b';'));
    protect(&job, &bench.mill, &bench.root, &ciphermill_table::NoProgress).unwrap();
    bench.unprotect("t.out", "t.back").unwrap();
    assert_eq!(bench.text("t.back"), "a;b\n1;x\n");
}

#[test]
fn batches_stay_small_whatever_the_length_of_the_file() {
    let bench = Bench::new();
    const ROWS: u64 = 300_000;
    let mut text = String::from("n,s\n");
    let mut numbers = Numbers(1);
    for row in 0..ROWS {
        text.push_str(&format!("{row},{}\n", numbers.next() % 50));
    }
    bench.write("in.csv", &text);
    let seen = AtomicU64::new(0);
    let progress = |position: &Position| {
        assert!(position.rows > seen.swap(position.rows, Ordering::Relaxed));
        assert!(position.bytes <= position.bytes_total.unwrap());
    };
    let job = bench.job("in.csv", "out.csv", &["s=deterministic"]);
    let summary = protect(&job, &bench.mill, &bench.root, &progress).unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), ROWS);
    assert_eq!(summary.rows, ROWS);
    assert!(summary.batches > 1 && summary.batch_bytes_max <= 1 << 20, "{} bytes", summary.batch_bytes_max);
    assert_eq!(summary.processed, 50, "each distinct value is processed once, over all batches");
    let back = bench.unprotect("out.csv", "back.csv").unwrap();
    assert_eq!(back.processed, 50);
    assert!(bench.text("back.csv") == text);
}

#[test]
fn values_that_hardly_repeat_are_not_remembered() {
    let bench = Bench::new();
    let mut text = String::from("n\n");
    (0..60_000).for_each(|row| text.push_str(&format!("{row}\n")));
    bench.write("in.csv", &text);
    let summary = bench.protect("in.csv", "out.csv", &["n=token:len=16"]).unwrap();
    assert_eq!((summary.processed, summary.values), (60_000, 60_000));
    let protected = bench.text("out.csv");
    let mut tokens: Vec<&str> = protected.lines().skip(1).collect();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 60_000);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(48))]
    #[test]
    fn any_table_comes_back(
        rows in proptest::collection::vec(("[a-c\",\n é]{0,6}", "[0-9]{7,9}|", "[x\"\r]{0,3}"), 0..40),
        quote_all in proptest::bool::ANY,
    ) {
        let quote = |field: &str| {
            if quote_all || field.contains([',', '"', '\n', '\r']) {
                format!("\"{}\"", field.replace('"', "\"\""))
            } else {
                field.to_owned()
            }
        };
        let mut text = String::from("a,b,c\n");
        for (a, b, c) in &rows {
            text.push_str(&format!("{},{},{}\n", quote(a), quote(b), quote(c)));
        }
        let bench = Bench::new();
        bench.write("in.csv", &text);
        bench.protect("in.csv", "out.csv", &["a=deterministic", "b=ff1", "c=random"]).unwrap();
        bench.unprotect("out.csv", "back.csv").unwrap();
        proptest::prop_assert_eq!(bench.text("back.csv"), text);
    }
}
