// A chart as a file: its values as CSV, its picture as PNG.
import {css} from "./dom.js";

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name.replace(/[^\w.-]+/g, "-");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const field = v => v === null || v === undefined ? "" : /[",\n]/.test(String(v)) ? `"${String(v).replaceAll('"', '""')}"` : String(v);

// data: as uPlot has it: the places, and a list of values for each label.
export function saveCsv(name, place, labels, data) {
  const rows = data[0].map((x, i) => [x, ...labels.map((_, k) => data[k + 1][i])]).filter(row => row.slice(1).some(v => v !== null && v !== undefined));
  save(new Blob([[[place, ...labels], ...rows].map(row => row.map(field).join(",") + "\n").join("")], {type: "text/csv"}), `${name}.csv`);
}

// The plot with its title above and the labels of its lines below.
export function savePng(name, title, plot, lines) {
  const ratio = devicePixelRatio || 1, from = plot.ctx.canvas, canvas = document.createElement("canvas"), c = canvas.getContext("2d");
  const top = 30 * ratio, line = 18 * ratio;
  const wide = Math.max(1, Math.floor(from.width / (150 * ratio))), rows = Math.ceil(lines.length / wide);
  [canvas.width, canvas.height] = [from.width, from.height + top + rows * line + 8 * ratio];
  c.fillStyle = css("--card");
  c.fillRect(0, 0, canvas.width, canvas.height);
  c.drawImage(from, 0, top);
  c.fillStyle = css("--text");
  c.font = `600 ${13 * ratio}px system-ui, sans-serif`;
  c.fillText(title, 12 * ratio, 20 * ratio);
  c.font = `${11 * ratio}px system-ui, sans-serif`;
  lines.forEach(({label, colour}, i) => {
    const x = (12 + i % wide * 150) * ratio, y = from.height + top + Math.floor(i / wide) * line + 10 * ratio;
    c.fillStyle = colour;
    c.fillRect(x, y - 5 * ratio, 12 * ratio, 3 * ratio);
    c.fillStyle = css("--muted");
    c.fillText(label, x + 16 * ratio, y, 128 * ratio);
  });
  canvas.toBlob(blob => save(blob, `${name}.png`), "image/png");
}
