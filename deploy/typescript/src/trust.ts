/** Certificates: what no waiting mends. */

const CODES = /^(CERT_|DEPTH_ZERO_|ERR_TLS_CERT_|HOSTNAME_MISMATCH|SELF_SIGNED_|UNABLE_TO_)/;

/** Whether an error is that the other side shows a certificate that is not trusted, by Node's codes. */
export function isUntrusted(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const code = (cause as NodeJS.ErrnoException).code;
    if (typeof code === "string" && CODES.test(code)) return true;
  }
  return false;
}
