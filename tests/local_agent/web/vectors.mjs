/** Put all vectors (tests/vectors/*.json) through the modules; print one line for each that differs, and a count for each file. */

import { readFileSync } from "node:fs";

const web = new URL(process.argv[2] ?? "../../../local_agent/web/", import.meta.url);
const load = (name) => import(new URL(`${name}.js`, web).href);
const { obtain } = await load("credential");
const { MemoryStore } = await load("folder");
const messages = await load("messages");
const { base64, hex, sha256hex, unbase64, unhex, decode, digest, encode } = messages;
const { identityOf, keyOfJson, signedOf, verify } = messages;
const hypotheses = await load("hypotheses");
const { check } = await load("policy");
const { load: loadKinds, ORDINARY, parseMechanism, parseQuery } = await load("questions");
const { publicWord } = await load("elementary");
const { recordOf } = await load("record");
const { checkReceipt, checkReport, goesOn, leafOf, packOne, rootOf } = await load("receipts");
const { Witness } = await load("witness");
const { gatewayOf, opened, seal } = await load("relay");
const { Refusal } = await load("values");
const { described } = await load("words");

await loadKinds();
const read = (name) => JSON.parse(readFileSync(new URL(`../../vectors/${name}.json`, import.meta.url), "utf-8"));
const text = (value) => (value === undefined ? "nothing" : new TextDecoder().decode(encode(value)));
const unlimited = (value) => value ?? Infinity;
const finite = (numbers) => numbers.map((each) => (Number.isFinite(each) ? each : null));

let name, count;

/** Compare what comes of a case, a value or a refusal, with what it says. */
async function hold(about, expected, make) {
  count++;
  let found;
  try {
    found = await make();
  } catch (error) {
    found = error instanceof Refusal ? { refused: error.problem } : { raised: String(error.stack) };
  }
  if (text(found) !== text(expected)) console.log(JSON.stringify({ file: name, about, found, expected }));
}

const refusal = ({ refused }) => ({ refused });

const files = {
  async canonical({ cases, numbers }) {
    for (const each of cases) {
      const expected = each.refused ? refusal(each) : { canonical: each.canonical, sha256: each.sha256 };
      await hold(each.bytes, expected, async () => {
        const raw = encode(decode(unbase64(each.bytes)));
        return { canonical: new TextDecoder().decode(raw), sha256: await sha256hex(raw) };
      });
    }
    for (const [bits, expected] of numbers)
      await hold(bits, expected, () => text(new DataView(unhex(bits).buffer).getFloat64(0)));
  },

  async signatures({ secret, key, cases, refused }) {
    const url = (bytes) => base64(bytes).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");
    const pair = await keyOfJson({ kty: "OKP", crv: "Ed25519", d: url(unhex(secret)), x: url(unhex(key)) });
    const identity = await identityOf(pair);
    await hold("the public key", key, () => identity.key);
    for (const { signed, kind, payload, digest: known, fingerprint: whole } of cases)
      await hold(kind, { signed, payload, digest: known, fingerprint: whole }, async () => {
        const made = await identity.sign(kind, signed.message);
        const bytes = await verify(signedOf(signed), kind, key);
        const found = { payload: new TextDecoder().decode(bytes), digest: await digest(signed.message) };
        return { signed: made, ...found, fingerprint: await digest(signed) };
      });
    for (const each of refused)
      await hold(each.about, refusal(each), () => verify(signedOf(each.signed), "poll", key));
  },

  async assignments({ address, told, configurations, cases }) {
    for (const each of cases)
      await hold(each.about, each.accepted ?? refusal(each), async () => {
        const rules = { ...each.rules, epsilon: unlimited(each.rules.epsilon) };
        const left = each.left.map(unlimited);
        const [asked, agreed] = [each.assignment, configurations[each.configuration]].map(signedOf);
        const question = await check(rules, asked, agreed, each.dimension, each.names, left);
        const { slot } = question;
        const shown = described(question, address, rules, left[0]);
        for (const title of Object.keys(told)) delete shown[title];
        return {
          slot,
          digest: question.digest,
          fingerprint: question.fingerprint,
          question: await digest([question.query.wire, question.mechanism.wire]),
          part: question.query.part(slot),
          mechanism: question.mechanism.wire,
          cost: finite(question.mechanism.guarantee),
          kind: question.mechanism.answerKind(question.query.domain),
          told: shown,
        };
      });
    const [{ rules, left, dimension, names, assignment, configuration }] = cases;
    await hold("what is told alike", told, async () => {
      const question = await check(rules, assignment, configurations[configuration], dimension, names, left);
      const shown = described(question, address, rules, left[0]);
      return Object.fromEntries(Object.keys(told).map((title) => [title, shown[title]]));
    });
  },

  async queries({ slots, people, cases, refused }) {
    await hold("the kinds of hypotheses", Object.keys(hypotheses.kinds), () => ORDINARY);
    for (const { query: wire, normal = wire, features, needs, columns, domain, parts, values } of cases) {
      const first = slots.filter((_, place) => parts.indexOf(parts[place]) === place);
      const records = people[features].map((each) => ({
        features: each.type === "uint8" ? Uint8Array.from(each.features) : Float32Array.from(each.features),
        label: each.label,
      }));
      await hold(wire, { normal, needs, columns, domain, parts, values }, () => {
        const query = parseQuery(wire);
        const valued = (record) => first.map((slot) => query.evaluate(record, slot));
        return {
          normal: query.wire,
          needs: query.minFeatures,
          columns: query.columns,
          domain: query.domain === null ? null : String(query.domain),
          parts: slots.map((slot) => query.part(slot)),
          values: records.map((record) => valued(record).map((each) => (typeof each === "bigint" ? String(each) : each))),
        };
      });
    }
    for (const each of refused) await hold(each.about, refusal(each), () => parseQuery(each.query).wire);
  },

  async mechanisms({ values, cases, publics }) {
    for (const { mechanism: wire, cost, domains } of cases) {
      const mechanism = parseMechanism(wire);
      await hold([wire, "cost"], cost, () => finite(mechanism.guarantee));
      for (const { domain, truth, ones, ratio, digits, ...rest } of domains)
        await hold([wire, domain], rest.refused ? refusal(rest) : { ...rest, coins: coinsOf({ truth, ratio, digits }) }, () => {
          const of = domain === null ? null : BigInt(domain);
          const kind = mechanism.answerKind(of);
          const coins = mechanism.thresholds(of ?? 0n).map(String);
          const known = truth === undefined && ratio === undefined ? [] : wire.name === "olh" ? coins.slice(1) : coins;
          return { kind, leaves: mechanism.leaves(of), coins: known };
        });
      const [{ ones }] = domains;
      for (const [place, expected] of (ones ?? []).entries())
        await hold([wire, values[place]], [1, 0], () =>
          // The answer is 1 below the chance, and 0 from there on.
          [BigInt(expected) - 1n, BigInt(expected)].map((word) => answerOf(mechanism, values[place], word)),
        );
    }
    for (const [seed, slot, word] of publics)
      await hold([seed, slot], word, () => String(publicWord(BigInt(seed), slot)));
  },

  async receipts({ referee, report, cases, leaves }) {
    for (const each of cases)
      await hold(each.about, each.refused ? refusal(each) : null, async () => {
        await checkReceipt(signedOf(each.receipt), report, referee);
        return null;
      });
    for (const { kind, answer, body, leaf } of leaves)
      await hold([kind, answer], { body, leaf }, async () => {
        const packed = packOne(answer, kind);
        return { body: hex(packed), leaf: await leafOf(report, packed) };
      });
  },

  async trees({ inclusion, consistency }) {
    for (const { root, leaf, index, count: number, path, holds } of inclusion)
      await hold([leaf, index, number], holds, async () => (await rootOf(unhex(leaf), index, number, path)) === root);
    for (const { older, first, newer, count: number, path, holds } of consistency)
      await hold([older, first, number], holds, () => goesOn(older, first, newer, number, path));
  },

  async proofs({ agent, referee, receipt, report, leaf, proof, cases }) {
    const identity = { key: agent, sign: async (kind, message) => ({ kind, message, key: agent, signature: "" }) };
    for (const each of cases)
      await hold(each.about, each.status, async () => {
        const client = {
          async proof() {
            if (each.problem) throw new Refusal(each.problem, each.detail);
            return { ...proof, ...each.proof };
          },
        };
        const held = { receipt, report, leaf, sent: Date.now() / 1000 - each.age };
        const { key, kept } = each.witness ?? {};
        const seen = { key: async () => key, checkpoints: async () => kept };
        const witness = each.witness && Object.assign(new Witness("https://witness.example"), seen);
        try {
          return (await checkReport(held, client, identity, referee, each.before, witness)).status;
        } catch (error) {
          if (!(error instanceof Refusal)) throw error;
          return `refused: ${error.problem}`;
        }
      });
  },

  async credentials({ agent, issuer, id, nonce, inverse, request, cases, keys }) {
    const obtained = async (key, reply) => {
      const store = new MemoryStore();
      const asked = { issuer: id, agent, nonce, blinded: request.slice(6), inverse: inverse.padStart(512, "0") };
      await store.write("asked", asked);
      let sent;
      const fetch = async (address, init) => {
        if (init.method === "GET") return new Response(JSON.stringify(key));
        sent = hex(new Uint8Array(await new Response(init.body).arrayBuffer()));
        return new Response(unhex(reply));
      };
      await obtain(store, agent, { address: "https://issuer.example", code: "code", key }, { fetch });
      if (sent !== request) throw new Error(`another request: ${sent}`);
      return { credential: await store.read("credential") };
    };
    for (const each of cases)
      await hold(each.about, each.refused ? refusal(each) : { credential: each.credential }, () => obtained(issuer, each.reply));
    for (const each of keys)
      await hold(each.about, each.refused ? refusal(each) : { credential: cases[0].credential }, () =>
        obtained({ ...issuer, tokens: each.tokens }, cases[0].reply),
      );
  },

  async relays({ referee, keys, request, responses }) {
    for (const each of keys)
      await hold(each.about, each.refused ? refusal(each) : { identifier: each.identifier, key: each.key }, async () => {
        const found = await gatewayOf(new Response(JSON.stringify(each.signed)), referee);
        return { identifier: found.header[0], key: hex(found.key) };
      });
    const [{ identifier, key }] = keys;
    const x25519 = { name: "X25519" };
    const pkcs8 = unhex(`302e020100300506032b656e04220420${request.ephemeral}`);
    const privateKey = await crypto.subtle.importKey("pkcs8", pkcs8, x25519, false, ["deriveBits"]);
    const publicKey = await crypto.subtle.importKey("raw", unhex(request.enc), x25519, true, []);
    const header = Uint8Array.of(identifier, 0, 0x20, 0, 1, 0, 1);
    const exchange = await seal(unhex(key), header, unhex(request.plain), { privateKey, publicKey });
    await hold("the request", request.sent, () => hex(exchange.sent));
    for (const each of responses)
      await hold(each.about, each.refused ? refusal(each) : each.response, async () => {
        const found = await opened(unhex(each.sealed), exchange);
        const body = hex(new Uint8Array(await found.arrayBuffer()));
        return { status: found.status, headers: Object.fromEntries(found.headers), body };
      });
  },

  async records({ schemas, cases }) {
    for (const { table, fields, bytes, label, refused } of cases)
      await hold([table, fields], refused ? { refused } : { bytes, label }, () => {
        const record = recordOf(fields, schemas[table]);
        return { bytes: hex(new Uint8Array(record.features.buffer)), label: record.label };
      });
  },
};

const coinsOf = ({ truth, ratio, digits }) => (truth ? [truth] : ratio ? [ratio, ...digits] : []);

/** Return the bit that a mechanism of values answers if the 53 bits it draws are these. */
const answerOf = (mechanism, value, word) => mechanism.randomize(value, null, 0n, { word: () => word << 11n });

for (const [file, put] of Object.entries(files)) {
  [name, count] = [file, 0];
  await put(read(file));
  console.log(JSON.stringify({ file, count }));
}
