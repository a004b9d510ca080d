// An OpenID provider on a loopback port, for tests: OIDC_CERT and OIDC_KEY are files of its certificate, OIDC_REDIRECT is where the pages' sign-on
// returns to. It prints its issuer, and is told on standard input, a word a line: `rotate` (sign with another key, publish that alone), `away`
// (answer nothing but 503), `back`, `short` (tokens end after two seconds from now on). After each it prints the word.
//
// Whoever signs on is called as they say. The names decide the groups: root is of `admins`, eve of none, all others of `nlp`.

import { generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import { createInterface } from "node:readline";
import Provider from "oidc-provider";

// Standard output is for whoever started this alone.
console.info = console.error;
const print = (word) => process.stdout.write(`${word}\n`);

let here = true;
let life = 600;
let serve;

const groups = (name) => (name === "root" ? ["admins"] : name === "eve" ? ["others"] : ["nlp"]);

function signer(serial) {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return { ...privateKey.export({ format: "jwk" }), kid: `key-${serial}`, use: "sig", alg: "ES256" };
}

function provider(issuer, serial) {
  const made = new Provider(issuer, {
    clients: [
      {
        client_id: "rail",
        client_secret: "what the pages show",
        redirect_uris: [process.env.OIDC_REDIRECT],
        grant_types: ["authorization_code"],
        response_types: ["code"],
        id_token_signed_response_alg: "ES256",
      },
      {
        client_id: "railctl",
        application_type: "native",
        token_endpoint_auth_method: "none",
        redirect_uris: [],
        response_types: [],
        grant_types: ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"],
        id_token_signed_response_alg: "ES256",
      },
    ],
    jwks: { keys: [signer(serial)] },
    scopes: ["openid", "offline_access", "profile", "groups"],
    claims: { openid: ["sub"], profile: ["preferred_username"], groups: ["groups"] },
    conformIdTokenClaims: false,
    features: { deviceFlow: { enabled: true }, devInteractions: { enabled: true } },
    ttl: { IdToken: () => life, AccessToken: () => life },
    cookies: { keys: ["only for tests"] },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, preferred_username: id, groups: groups(id) }),
    }),
  });
  made.on("server_error", (_, error) => console.error(error));
  return made.callback();
}

const server = createServer(
  { cert: readFileSync(process.env.OIDC_CERT), key: readFileSync(process.env.OIDC_KEY), minVersion: "TLSv1.3" },
  (request, response) => (here ? serve(request, response) : response.writeHead(503).end()),
);
server.listen(0, "127.0.0.1", () => {
  const issuer = `https://127.0.0.1:${server.address().port}`;
  let serial = 0;
  serve = provider(issuer, serial);
  print(issuer);
  const told = {
    rotate: () => (serve = provider(issuer, ++serial)),
    away: () => (here = false),
    back: () => (here = true),
    short: () => (life = 2),
  };
  createInterface({ input: process.stdin })
    .on("line", (word) => {
      told[word]();
      print(word);
    })
    // Whoever started it is gone.
    .on("close", () => process.exit(0));
});
