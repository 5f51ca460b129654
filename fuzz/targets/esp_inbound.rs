#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ciphermill_fuzz::esp_inbound::run(bytes));
