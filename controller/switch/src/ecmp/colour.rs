//! Edges of a bipartite graph coloured so that no two of one end have the same colour, with as few colours as the busiest end has edges
//! (König, 1916; by alternating ways).

/// Colours of the edges (left, right); at most `colours` of them, which is not less than the number of edges at any end. `None` if it is.
pub(super) fn colour(edges: &[(usize, usize)], colours: usize) -> Option<Vec<usize>> {
    let ends = |side: fn(&(usize, usize)) -> usize| edges.iter().map(side).max().map_or(0, |end| end + 1);
    // By side, end and colour: the edge.
    let mut at = [
        vec![vec![usize::MAX; colours]; ends(|edge| edge.0)],
        vec![vec![usize::MAX; colours]; ends(|edge| edge.1)],
    ];
    let mut colour_of = vec![usize::MAX; edges.len()];
    for (edge, &(left, right)) in edges.iter().enumerate() {
        let free = |side: usize, end: usize| at[side][end].iter().position(|edge| *edge == usize::MAX);
        let (here, there) = (free(0, left)?, free(1, right)?);
        if at[1][right][here] != usize::MAX {
            exchange(edges, &mut at, &mut colour_of, right, here, there);
        }
        at[0][left][here] = edge;
        at[1][right][here] = edge;
        colour_of[edge] = here;
    }
    Some(colour_of)
}

/// Exchanges the two colours along the way that begins at `right` with an edge of colour `here`, so that this colour is free there.
fn exchange(
    edges: &[(usize, usize)],
    at: &mut [Vec<Vec<usize>>; 2],
    colour_of: &mut [usize],
    right: usize,
    here: usize,
    there: usize,
) {
    let (mut side, mut end, mut wanted) = (1, right, here);
    let mut way = Vec::new();
    loop {
        let edge = at[side][end][wanted];
        if edge == usize::MAX {
            break;
        }
        way.push(edge);
        let (left, right) = edges[edge];
        (side, end) = if side == 1 { (0, left) } else { (1, right) };
        wanted = if wanted == here { there } else { here };
    }
    for edge in &way {
        let (left, right) = edges[*edge];
        at[0][left][colour_of[*edge]] = usize::MAX;
        at[1][right][colour_of[*edge]] = usize::MAX;
    }
    for edge in way {
        let (left, right) = edges[edge];
        let new = if colour_of[edge] == here { there } else { here };
        colour_of[edge] = new;
        at[0][left][new] = edge;
        at[1][right][new] = edge;
    }
}
