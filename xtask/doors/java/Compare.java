import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.Provider;
import java.security.Security;
import java.security.Signature;
import java.security.spec.AlgorithmParameterSpec;
import java.security.spec.ECGenParameterSpec;
import java.security.spec.X509EncodedKeySpec;
import java.util.Arrays;
import java.util.Random;
import javax.crypto.Cipher;
import javax.crypto.KeyAgreement;
import javax.crypto.Mac;
import javax.crypto.SecretKey;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/** What a token computes, beside what Java's own providers do: the same bytes, or signatures that these verify. */
class Compare {
    static Provider token;
    static final int[] LENGTHS = {0, 1, 15, 16, 17, 1000, 70000};
    static int done;

    /** Arguments: SunPKCS11's configuration, the token's PIN. Prints how many comparisons there were, and which services the token has not. */
    public static void main(String[] arguments) throws Exception {
        token = Security.getProvider("SunPKCS11").configure(arguments[0]);
        Security.addProvider(token);
        KeyStore.getInstance("PKCS11", token).load(null, arguments[1].toCharArray());
        // Java closes sessions that have nothing, and with the last one the login ends: a key pair keeps one open.
        KeyPair rsa = pair("RSA", 2048, null);
        for (String name : new String[] {"MD5", "SHA-1", "SHA-224", "SHA-256", "SHA-384", "SHA-512"}) tried(name, () -> digest(name));
        for (String name : new String[] {"HmacMD5", "HmacSHA1", "HmacSHA224", "HmacSHA256", "HmacSHA384", "HmacSHA512"}) tried(name, () -> mac(name));
        for (int len : new int[] {16, 24, 32}) {
            tried("ECB", () -> cipher("AES/ECB/NoPadding", "AES", len, null));
            tried("ECB, padded", () -> cipher("AES/ECB/PKCS5Padding", "AES", len, null));
            tried("CBC", () -> cipher("AES/CBC/NoPadding", "AES", len, new IvParameterSpec(bytes(16))));
            tried("CBC, padded", () -> cipher("AES/CBC/PKCS5Padding", "AES", len, new IvParameterSpec(bytes(16))));
            tried("CTR", () -> cipher("AES/CTR/NoPadding", "AES", len, new IvParameterSpec(bytes(16))));
            tried("GCM", () -> cipher("AES/GCM/NoPadding", "AES", len, new GCMParameterSpec(128, bytes(12))));
        }
        tried("3DES", () -> cipher("DESede/CBC/PKCS5Padding", "DESede", 24, new IvParameterSpec(bytes(8))));
        tried("ChaCha20", () -> cipher("ChaCha20-Poly1305", "ChaCha20", 32, new IvParameterSpec(bytes(12))));
        for (String hash : new String[] {"SHA1", "SHA224", "SHA256", "SHA384", "SHA512"}) tried(hash, () -> signature(hash + "withRSA", rsa, "RSA"));
        tried("RSA", () -> decryption(rsa));
        for (String curve : new String[] {"secp256r1", "secp384r1", "secp521r1"}) {
            tried(curve, () -> {
                KeyPair ec = pair("EC", 0, new ECGenParameterSpec(curve));
                for (String hash : new String[] {"SHA1", "SHA256", "SHA384", "SHA512"}) tried(curve, () -> signature(hash + "withECDSA", ec, "EC"));
                agreement(ec, curve);
            });
        }
        System.out.println("compared: " + done);
    }

    interface Part {
        void run() throws Exception;
    }

    /** Goes on after what fails, so that one run tells all of it. */
    static void tried(String what, Part part) {
        try {
            part.run();
        } catch (Exception failed) {
            Throwable cause = failed;
            while (cause.getCause() != null) cause = cause.getCause();
            expect(false, what + ": " + failed + ", by " + cause);
        }
    }

    static boolean has(String type, String name) {
        if (token.getService(type, name) != null) return true;
        System.out.println("not had: " + type + " " + name);
        return false;
    }

    static void expect(boolean holds, String what) {
        done++;
        if (!holds) System.out.println("wrong: " + what);
    }

    static byte[] bytes(int len) {
        byte[] made = new byte[len];
        new Random(len + 7L).nextBytes(made);
        return made;
    }

    static void digest(String name) throws Exception {
        if (!has("MessageDigest", name)) return;
        for (int len : LENGTHS) {
            MessageDigest inToken = MessageDigest.getInstance(name, token);
            byte[] message = bytes(len);
            // In two parts.
            inToken.update(message, 0, len / 3);
            inToken.update(message, len / 3, len - len / 3);
            expect(Arrays.equals(inToken.digest(), MessageDigest.getInstance(name, "SUN").digest(message)), name + " of " + len);
        }
    }

    static void mac(String name) throws Exception {
        if (!has("Mac", name)) return;
        for (int len : LENGTHS) {
            SecretKeySpec key = new SecretKeySpec(bytes(64), name);
            Mac inToken = Mac.getInstance(name, token), here = Mac.getInstance(name, "SunJCE");
            inToken.init(key);
            here.init(key);
            expect(Arrays.equals(inToken.doFinal(bytes(len)), here.doFinal(bytes(len))), name + " of " + len);
        }
    }

    static void cipher(String name, String algorithm, int keyLen, AlgorithmParameterSpec parameters) throws Exception {
        try {
            Cipher.getInstance(name, token);
        } catch (java.security.NoSuchAlgorithmException lacking) {
            System.out.println("not had: Cipher " + name);
            return;
        }
        SecretKey key = new SecretKeySpec(bytes(keyLen), algorithm);
        for (int len : LENGTHS) {
            byte[] message = bytes(name.endsWith("CBC/NoPadding") || name.endsWith("ECB/NoPadding") ? len / 16 * 16 : len);
            Cipher inToken = Cipher.getInstance(name, token), here = Cipher.getInstance(name, "SunJCE");
            inToken.init(Cipher.ENCRYPT_MODE, key, parameters);
            here.init(Cipher.ENCRYPT_MODE, key, parameters);
            boolean isAead = name.contains("GCM") || name.contains("Poly1305");
            if (isAead) {
                inToken.updateAAD(bytes(13));
                here.updateAAD(bytes(13));
            }
            byte[] sealed = here.doFinal(message);
            expect(Arrays.equals(inToken.doFinal(message), sealed), name + " of " + message.length);
            inToken.init(Cipher.DECRYPT_MODE, key, parameters);
            if (isAead) inToken.updateAAD(bytes(13));
            expect(Arrays.equals(inToken.doFinal(sealed), message), name + " back, of " + message.length);
            if (isAead) {
                sealed[0] ^= 1;
                inToken.init(Cipher.DECRYPT_MODE, key, parameters);
                inToken.updateAAD(bytes(13));
                boolean refused = false;
                try {
                    inToken.doFinal(sealed);
                } catch (java.security.GeneralSecurityException wrong) {
                    refused = true;
                }
                expect(refused, name + ": a changed message is taken");
            }
        }
    }

    static KeyPair pair(String algorithm, int bits, AlgorithmParameterSpec parameters) throws Exception {
        KeyPairGenerator generator = KeyPairGenerator.getInstance(algorithm, token);
        if (parameters == null) generator.initialize(bits);
        else generator.initialize(parameters);
        return generator.generateKeyPair();
    }

    static java.security.PublicKey outside(KeyPair pair, String algorithm) throws Exception {
        String provider = algorithm.equals("RSA") ? "SunRsaSign" : "SunEC";
        return KeyFactory.getInstance(algorithm, provider).generatePublic(new X509EncodedKeySpec(pair.getPublic().getEncoded()));
    }

    static void signature(String name, KeyPair pair, String algorithm) throws Exception {
        if (!has("Signature", name)) return;
        for (int len : LENGTHS) {
            Signature inToken = Signature.getInstance(name, token);
            inToken.initSign(pair.getPrivate());
            inToken.update(bytes(len));
            byte[] signed = inToken.sign();
            Signature here = Signature.getInstance(name, algorithm.equals("RSA") ? "SunRsaSign" : "SunEC");
            here.initVerify(outside(pair, algorithm));
            here.update(bytes(len));
            expect(here.verify(signed), name + " of " + len);
            inToken.initVerify(pair.getPublic());
            inToken.update(bytes(len));
            expect(inToken.verify(signed), name + " verified, of " + len);
            inToken.initVerify(pair.getPublic());
            inToken.update(bytes(len + 1));
            expect(!inToken.verify(signed), name + " of another message");
        }
    }

    static void decryption(KeyPair rsa) throws Exception {
        Cipher here = Cipher.getInstance("RSA/ECB/PKCS1Padding", "SunJCE");
        here.init(Cipher.ENCRYPT_MODE, outside(rsa, "RSA"));
        byte[] sealed = here.doFinal(bytes(48));
        Cipher inToken = Cipher.getInstance("RSA/ECB/PKCS1Padding", token);
        inToken.init(Cipher.DECRYPT_MODE, rsa.getPrivate());
        expect(Arrays.equals(inToken.doFinal(sealed), bytes(48)), "RSA of PKCS #1");
    }

    static void agreement(KeyPair ec, String curve) throws Exception {
        if (!has("KeyAgreement", "ECDH")) return;
        KeyPairGenerator generator = KeyPairGenerator.getInstance("EC", "SunEC");
        generator.initialize(new ECGenParameterSpec(curve));
        KeyPair other = generator.generateKeyPair();
        KeyAgreement inToken = KeyAgreement.getInstance("ECDH", token), here = KeyAgreement.getInstance("ECDH", "SunEC");
        inToken.init(ec.getPrivate());
        inToken.doPhase(other.getPublic(), true);
        here.init(other.getPrivate());
        here.doPhase(outside(ec, "EC"), true);
        expect(Arrays.equals(inToken.generateSecret(), here.generateSecret()), "ECDH over " + curve);
    }
}
