//! SHA-256 (FIPS 180-4), for fingerprints of data sets.

const INITIAL: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

const ROUND: [u32; 64] = [
    0x428a_2f98,
    0x7137_4491,
    0xb5c0_fbcf,
    0xe9b5_dba5,
    0x3956_c25b,
    0x59f1_11f1,
    0x923f_82a4,
    0xab1c_5ed5,
    0xd807_aa98,
    0x1283_5b01,
    0x2431_85be,
    0x550c_7dc3,
    0x72be_5d74,
    0x80de_b1fe,
    0x9bdc_06a7,
    0xc19b_f174,
    0xe49b_69c1,
    0xefbe_4786,
    0x0fc1_9dc6,
    0x240c_a1cc,
    0x2de9_2c6f,
    0x4a74_84aa,
    0x5cb0_a9dc,
    0x76f9_88da,
    0x983e_5152,
    0xa831_c66d,
    0xb003_27c8,
    0xbf59_7fc7,
    0xc6e0_0bf3,
    0xd5a7_9147,
    0x06ca_6351,
    0x1429_2967,
    0x27b7_0a85,
    0x2e1b_2138,
    0x4d2c_6dfc,
    0x5338_0d13,
    0x650a_7354,
    0x766a_0abb,
    0x81c2_c92e,
    0x9272_2c85,
    0xa2bf_e8a1,
    0xa81a_664b,
    0xc24b_8b70,
    0xc76c_51a3,
    0xd192_e819,
    0xd699_0624,
    0xf40e_3585,
    0x106a_a070,
    0x19a4_c116,
    0x1e37_6c08,
    0x2748_774c,
    0x34b0_bcb5,
    0x391c_0cb3,
    0x4ed8_aa4a,
    0x5b9c_ca4f,
    0x682e_6ff3,
    0x748f_82ee,
    0x78a5_636f,
    0x84c8_7814,
    0x8cc7_0208,
    0x90be_fffa,
    0xa450_6ceb,
    0xbef9_a3f7,
    0xc671_78f2,
];

/// The digest of `data` as 64 lower-case hexadecimal digits.
#[must_use]
pub fn hex_digest(data: &[u8]) -> String {
    let mut state = INITIAL;
    for block in padded(data).chunks_exact(64) {
        compress(&mut state, &schedule(block));
    }
    let words = state.map(|word| format!("{word:08x}"));
    words.concat()
}

/// The message, a one bit, zeros up to 56 mod 64 bytes, and the length in bits.
fn padded(data: &[u8]) -> Vec<u8> {
    let bits = (data.len() as u64).wrapping_mul(8);
    let mut message = data.to_vec();
    message.push(0x80);
    while message.len() % 64 != 56 {
        message.push(0);
    }
    message.extend(bits.to_be_bytes());
    message
}

fn schedule(block: &[u8]) -> [u32; 64] {
    let mut w = [0_u32; 64];
    for (word, bytes) in w.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().fold(0, |acc, &b| acc << 8 | u32::from(b));
    }
    for i in 16..64 {
        let s0 = w[i - 15].rotate_right(7) ^ w[i - 15].rotate_right(18) ^ (w[i - 15] >> 3);
        let s1 = w[i - 2].rotate_right(17) ^ w[i - 2].rotate_right(19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16]
            .wrapping_add(s0)
            .wrapping_add(w[i - 7])
            .wrapping_add(s1);
    }
    w
}

fn compress(state: &mut [u32; 8], w: &[u32; 64]) {
    let mut v = *state;
    for (&word, &constant) in w.iter().zip(&ROUND) {
        v = round(v, word.wrapping_add(constant));
    }
    for (total, value) in state.iter_mut().zip(v) {
        *total = total.wrapping_add(value);
    }
}

/// One of the 64 rounds; the standard's a…h are `v[0]`…`v[7]`.
fn round(v: [u32; 8], input: u32) -> [u32; 8] {
    let s1 = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
    let choice = (v[4] & v[5]) ^ (!v[4] & v[6]);
    let t1 = [s1, choice, input]
        .iter()
        .fold(v[7], |acc, &x| acc.wrapping_add(x));
    let s0 = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
    let majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
    let t2 = s0.wrapping_add(majority);
    let (top, middle) = (t1.wrapping_add(t2), v[3].wrapping_add(t1));
    [top, v[0], v[1], v[2], middle, v[4], v[5], v[6]]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values from the standard's examples and from Python's hashlib.
    #[test]
    fn digests_are_the_known_ones() {
        let cases: [(Vec<u8>, &str); 5] = [
            (
                vec![],
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ),
            (
                b"abc".to_vec(),
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
            (
                vec![b'a'; 55],
                "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318",
            ),
            (
                vec![b'a'; 56],
                "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a",
            ),
            (
                vec![b'a'; 1_000_000],
                "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
            ),
        ];
        for (data, expected) in cases {
            assert_eq!(hex_digest(&data), expected, "{} bytes", data.len());
        }
    }
}
