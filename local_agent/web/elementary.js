/**
 * Arithmetic with the same bits everywhere. Exponential and logarithm are made of additions, multiplications and
 * divisions alone, by the formulas of fdlibm (common/numerics/elementary.py): engines' Math.exp and Math.log differ in
 * the last bits. The public words of a question are those of SplitMix64 (common/numerics/counter.py).
 */

const HIGH = 6.93147180369123816490e-1; // ln 2 = HIGH + LOW
const LOW = 1.90821492927058770002e-10;
const EXP = [1.66666666666666019037e-1, -2.77777777770155933842e-3, 6.61375632143793436117e-5, -1.6533902205465251539e-6, 4.13813679705723846039e-8]; // prettier-ignore
const double = new Float64Array(1);
const bits = new BigUint64Array(double.buffer);

/** Return 2^exponent, for an exponent in -1022..1023. @param {number} exponent */
function powerOfTwo(exponent) {
  bits[0] = BigInt(exponent + 1023) << 52n;
  return double[0];
}

/** Return the nearest whole number, the even one of two. @param {number} x */
export function rint(x) {
  const below = Math.floor(x);
  const rest = x - below;
  return rest < 0.5 || (rest === 0.5 && below % 2 === 0) ? below : below + 1;
}

/** Return x within [low, high]; NaN stays NaN. @param {number} x @param {number} low @param {number} high */
export const clip = (x, low, high) => Math.min(Math.max(x, low), high);
/** Return x, and another number in the place of NaN. @param {number} x */
export const known = (x, other = 0) => (Number.isNaN(x) ? other : x);

/** Return e^x. @param {number} x */
export function exp(x) {
  if (Number.isNaN(x)) return x;
  x = clip(x, -746, 710);
  const whole = rint(x * 1.44269504088896338700);
  const [high, low] = [x - whole * HIGH, whole * LOW];
  const r = high - low;
  const t = r * r;
  const c = r - t * EXP.reduceRight((p, coefficient) => coefficient + t * p);
  const half = Math.floor(whole / 2);
  return (1 - (low - (r * c) / (2 - c) - high)) * powerOfTwo(half) * powerOfTwo(whole - half);
}

/** Return ln x of a number of at least 2^-1022. @param {number} x */
export function log(x) {
  if (Number.isNaN(x)) return x;
  double[0] = x;
  let exponent = Number(bits[0] >> 52n) - 1022;
  bits[0] = (bits[0] & ((1n << 52n) - 1n)) | (1022n << 52n);
  let mantissa = double[0];
  if (mantissa < 0.70710678118654752440) [mantissa, exponent] = [2 * mantissa, exponent - 1];
  const f = mantissa - 1;
  const s = f / (2 + f);
  const z = s * s;
  const w = z * z;
  const even = w * (3.999999999940941908e-1 + w * (2.222219843214978396e-1 + w * 1.531383769920937332e-1));
  let odd = 1.818357216161805012e-1 + w * 1.479819860511658591e-1;
  odd = 6.66666666666673513e-1 + w * (2.857142874366239149e-1 + w * odd);
  const r = even + z * odd;
  const half = 0.5 * f * f;
  return exponent * HIGH - (half - (s * (half + r) + exponent * LOW) - f);
}

/** Return ln(1 + e^x). @param {number} x */
export const softplus = (x) => Math.max(x, 0) + log(1 + exp(-Math.abs(x)));
/** Return 1/(1 + e^-s) of a score, which counts as at most 40 from 0. @param {number} score */
export const logistic = (score) => 1 / (1 + exp(-clip(score, -40, 40)));
/** Return the sum of numbers, from the first on. @param {Iterable<number>} numbers */
export const sum = (numbers) => Array.from(numbers).reduce((total, number) => total + number, 0);
export const range = (/** @type {number} */ count, first = 0) => Array.from({ length: count }, (_, at) => first + at);
export const sorted = (/** @type {Iterable<number>} */ numbers) => [...new Set(numbers)].sort((a, b) => a - b);
/** Return the number of which features are the bits: ones above 0. @param {import("./values.js").Features} features */
export const pack = (features) => BigInt("0b0" + Array.from(features, (feature) => Number(feature > 0)).join(""));

const HALVINGS = 10n;

/** Return [n, 2^256] with n/2^256 <= e^x, for x in [0, 700]. @param {number} x @returns {[bigint, bigint]} */
export function expBelow(x) {
  let shift = 256n - HALVINGS;
  for (; !Number.isInteger(x); shift--) x *= 2;
  const reduced = shift < 0n ? BigInt(x) >> -shift : BigInt(x) << shift;
  const one = 1n << 256n;
  let total = one;
  for (let term = one, order = 1n; term > 0n; order++) {
    term = (term * reduced) / (order << 256n);
    total += term;
  }
  for (let halving = 0n; halving < HALVINGS; halving++) total = (total * total) >> 256n;
  return [total, one];
}

const GOLDEN = 0x9e3779b97f4a7c15n;

function mixed(/** @type {bigint} */ word) {
  word = BigInt.asUintN(64, (word ^ (word >> 30n)) * 0xbf58476d1ce4e5b9n);
  word = BigInt.asUintN(64, (word ^ (word >> 27n)) * 0x94d049bb133111ebn);
  return word ^ (word >> 31n);
}

/** Return a word of a public sequence. @param {bigint} begin @param {bigint} place */
export const wordAt = (begin, place) => mixed(BigInt.asUintN(64, begin + (place + 1n) * GOLDEN));

/** Return a slot's public word, from a question's public randomness. @param {bigint} seed @param {number} slot */
export const publicWord = (seed, slot) =>
  wordAt(mixed(mixed(mixed(seed)) ^ mixed(BigInt.asUintN(64, BigInt(slot) * GOLDEN + 1n))), 0n);

/** Return 1 for an odd number of ones, else 0. @param {bigint} word */
export function parity(word) {
  for (const half of [32n, 16n, 8n, 4n, 2n, 1n]) word ^= word >> half;
  return Number(word & 1n);
}
