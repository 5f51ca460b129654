//! OpenSSL unloads a provider when its last user is gone; threads and `atexit` handlers may still be within its code then.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
