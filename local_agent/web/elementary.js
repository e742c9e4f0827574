/**
 * Exponential and logarithm by additions, multiplications and divisions alone: engines' Math.exp and Math.log differ in
 * the last bits. The formulas are those of fdlibm, as in common/numerics/elementary.py, and so are all bits.
 */

const HIGH = 6.93147180369123816490e-1; // ln 2 = HIGH + LOW
const LOW = 1.90821492927058770002e-10;
const PER_LOG_2 = 1.44269504088896338700;
const HALF_ROOT = 0.70710678118654752440;

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

/** Return x within [low, high]; NaN stays what it is. @type {(x: number, low: number, high: number) => number} */
export const clip = (x, low, high) => (x < low ? low : x > high ? high : x);

/** Return x, and 0, or another number, in the place of NaN. @param {number} x @param {number} other */
export const known = (x, other = 0) => (Number.isNaN(x) ? other : x);

/** Return e^x. @param {number} x */
export function exp(x) {
  if (Number.isNaN(x)) return x;
  x = clip(x, -746, 710);
  const whole = rint(x * PER_LOG_2);
  const [high, low] = [x - whole * HIGH, whole * LOW];
  const r = high - low;
  const t = r * r;
  let p = 4.13813679705723846039e-8;
  p = -1.6533902205465251539e-6 + t * p;
  p = 6.61375632143793436117e-5 + t * p;
  p = -2.77777777770155933842e-3 + t * p;
  p = 1.66666666666666019037e-1 + t * p;
  const c = r - t * p;
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
  if (mantissa < HALF_ROOT) [mantissa, exponent] = [2 * mantissa, exponent - 1];
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

/** Return the sum of numbers, from the first on. @param {number[]} numbers */
export const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** Return the sum of products, from the first on. @param {number[]} chances @param {number[]} numbers */
export const weighted = (chances, numbers) => chances.reduce((total, chance, at) => total + chance * numbers[at], 0);

/** @param {number} count @param {number} [first] */
export const range = (count, first = 0) => Array.from({ length: count }, (_, at) => first + at);

/** @param {Iterable<number>} numbers */
export const sorted = (numbers) => [...new Set(numbers)].sort((a, b) => a - b);

/** Return the whole number of which features are the bits; those above 0 are ones. @param {import("./values.js").Features} features */
export const pack = (features) => BigInt("0b0" + Array.from(features, (feature) => (feature > 0 ? "1" : "0")).join(""));

const EXP_BITS = 256n;
const HALVINGS = 10n;

/**
 * Return whole numbers [n, 2^256] with n/2^256 <= e^x, for x in [0, 700]: common/privacy/rounding.py, `exp_below`.
 * @param {number} x
 * @returns {[bigint, bigint]}
 */
export function expBelow(x) {
  const [numerator, denominator] = ratio(x);
  const reduced = (numerator << (EXP_BITS - HALVINGS)) / denominator;
  let total = 1n << EXP_BITS;
  let term = total;
  for (let order = 1n; term > 0n; order++) {
    term = (term * reduced) / (order << EXP_BITS);
    total += term;
  }
  for (let halving = 0n; halving < HALVINGS; halving++) total = (total * total) >> EXP_BITS;
  return [total, 1n << EXP_BITS];
}

/** Return a positive double as a ratio of whole numbers, exactly. @param {number} x @returns {[bigint, bigint]} */
function ratio(x) {
  let shift = 0n;
  for (; !Number.isInteger(x); shift++) x *= 2;
  return [BigInt(x), 1n << shift];
}
