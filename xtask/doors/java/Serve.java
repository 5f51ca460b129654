import java.io.FileInputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.security.Provider;
import java.security.Security;
import java.security.cert.CertificateFactory;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLServerSocket;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

/** A server whose private keys are in a token; it wants certificates of clients, and answers with the protocol's version. */
class Serve {
    /** Arguments: SunPKCS11's configuration, the token's PIN, a file with the authority's certificate, the port. */
    public static void main(String[] arguments) throws Exception {
        Provider token = Security.getProvider("SunPKCS11").configure(arguments[0]);
        Security.addProvider(token);
        char[] pin = arguments[1].toCharArray();
        KeyStore keys = KeyStore.getInstance("PKCS11", token);
        keys.load(null, pin);
        KeyManagerFactory ours = KeyManagerFactory.getInstance("PKIX");
        ours.init(keys, pin);
        KeyStore authorities = KeyStore.getInstance("PKCS12");
        authorities.load(null, null);
        try (FileInputStream file = new FileInputStream(arguments[2])) {
            authorities.setCertificateEntry("authority", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        TrustManagerFactory trusted = TrustManagerFactory.getInstance("PKIX");
        trusted.init(authorities);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(ours.getKeyManagers(), trusted.getTrustManagers(), null);
        try (SSLServerSocket server = (SSLServerSocket) context.getServerSocketFactory().createServerSocket(Integer.parseInt(arguments[3]))) {
            server.setNeedClientAuth(true);
            while (true) {
                try (SSLSocket client = (SSLSocket) server.accept()) {
                    client.startHandshake();
                    OutputStream out = client.getOutputStream();
                    out.write(("answered over " + client.getSession().getProtocol() + "\n").getBytes(StandardCharsets.US_ASCII));
                    out.flush();
                } catch (java.io.IOException refused) {
                    System.err.println(refused);
                }
            }
        }
    }
}
