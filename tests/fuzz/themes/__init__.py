"""What a program may be about: each theme is a table of steps with their weights."""

from fuzz.themes import attention, images, large, loops, masks, mutation, products

THEMES = {
    "attention": attention.STEPS,
    "products": products.STEPS,
    "images": images.STEPS,
    "large": large.STEPS,
    "loops": loops.STEPS,
    "mutation": mutation.STEPS,
    "masks": masks.STEPS,
}
